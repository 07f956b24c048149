"""The shapes that are stored or handed to other programs, as pydantic models with a published JSON Schema."""
