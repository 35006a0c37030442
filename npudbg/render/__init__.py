"""Records to lines of text, for the command line and the TUI alike."""
