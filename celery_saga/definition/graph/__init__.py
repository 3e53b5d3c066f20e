"""Sagas that are data: states, transitions between them, and the body that follows them."""
