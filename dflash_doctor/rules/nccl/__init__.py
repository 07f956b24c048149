"""Causes of the family nccl."""
