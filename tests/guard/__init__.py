"""Tests of the transport guard: each finding appears where it is dangerous, and not where it is safe."""
