"""What the workers of measurements load."""

from __future__ import annotations
