"""Causes of the family parallelism."""
