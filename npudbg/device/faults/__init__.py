"""Faults that hardware really shows, each with its effect on bytes or cycles."""
