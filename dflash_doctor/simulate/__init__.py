"""A serving host made of data: SSH, engine API, logs and GPU counters, all from one scenario file."""
