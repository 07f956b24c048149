"""Causes of the family model."""
