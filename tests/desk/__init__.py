"""The compensation desk, verbs for many runs, sending again what was lost, and every operation in every status."""
