"""What differs between two saved runs: commands, tensors, verdicts."""
