"""Houses on every store, as the scenarios have them."""

from __future__ import annotations

from tests.scenarios.conftest import house, place, store_url

__all__ = ["house", "place", "store_url"]
