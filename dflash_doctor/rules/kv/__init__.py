"""Causes of the family kv."""
