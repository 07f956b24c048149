"""Causes of the family moe."""
