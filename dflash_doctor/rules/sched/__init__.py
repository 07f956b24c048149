"""Causes of the family sched."""
