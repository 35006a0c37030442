"""ELF checks for npudbg: alignment, segments, and what a loader would refuse."""
