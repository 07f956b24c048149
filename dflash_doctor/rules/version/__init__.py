"""Causes of the family version."""
