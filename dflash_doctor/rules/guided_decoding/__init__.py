"""Causes of the family guided_decoding."""
