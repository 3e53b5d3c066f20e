"""Schedules: what may be said, when they fire, what is told of it, and both things that may wake them."""
