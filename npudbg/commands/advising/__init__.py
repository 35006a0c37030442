"""Searching for the nodes that must keep a wider type."""
