"""Causes of the family host."""
