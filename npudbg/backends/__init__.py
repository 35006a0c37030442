"""Backends: whatever makes a session."""
