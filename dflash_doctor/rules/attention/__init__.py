"""Causes of the family attention."""
