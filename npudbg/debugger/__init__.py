"""A cursor over a session: stepping, breakpoints, expressions, commands."""
