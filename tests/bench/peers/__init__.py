"""Worker processes of other durable engines, as their documentation recommends to run them."""

from __future__ import annotations
