"""Causes of the family gpu."""
