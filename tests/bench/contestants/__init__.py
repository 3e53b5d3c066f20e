"""Who is measured: each takes a number of ten-step sequences and says how many steps a second it has made."""

from __future__ import annotations
