"""Causes of the family workload."""
