"""What each operator does on the device: its tiles, its cost, its arithmetic."""
