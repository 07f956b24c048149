"""Causes of the family measurement."""
