"""Nonsense, from wherever it may come: refused by a named error or accepted, and no process is worse for it."""
