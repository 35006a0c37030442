"""Logs and tables of vendors' tools, read as they are: text that nobody vouches for."""
