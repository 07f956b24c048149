"""Causes of the family cudagraph."""
