"""Causes of the family compile."""
