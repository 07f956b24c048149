"""Causes of the family quant."""
