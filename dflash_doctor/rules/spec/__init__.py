"""Causes of the family spec."""
