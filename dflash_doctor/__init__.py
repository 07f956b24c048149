"""dflash-doctor: from a slow LLM server to a named cause."""

__version__ = "0.1.0"
