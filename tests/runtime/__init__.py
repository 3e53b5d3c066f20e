"""Sagas on real workers."""
