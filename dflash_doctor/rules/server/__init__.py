"""Causes of the family server."""
