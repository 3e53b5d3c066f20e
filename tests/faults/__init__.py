"""Faults of the field, on real processes, brokers and databases."""
