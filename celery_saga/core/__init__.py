"""What decides: pure functions over records, without a clock, randomness, input or output."""
