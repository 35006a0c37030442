"""The agent that lives in a user's own process (standard library and NumPy only)."""
