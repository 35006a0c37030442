"""The verbs of the debugger's language, a module a kind."""
