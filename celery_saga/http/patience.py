"""How many requests may wait at once, so that those that wait leave threads to the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery_saga.errors import RateLimited

__all__ = ["Patience"]


class Patience:
    """A number of places for requests that wait.

    Args:
        places: how many may wait at once.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free = threading.BoundedSemaphore(places)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place, for as long as the block lasts.

        Raises:
            RateLimited: all are taken.
        """
        if not self._free.acquire(blocking=False):
            raise RateLimited(
                1.0, f"{self._places} requests wait for events already; try again in 1 s, or without wait=."
            )
        try:
            yield
        finally:
            self._free.release()
