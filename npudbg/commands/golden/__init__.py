"""Comparison with golden values: where they come from, how names match, the table."""
