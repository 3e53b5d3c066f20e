"""How far a worker has come in each queue: what was sent before that, and did not come, is lost or in other hands.

Only a hint about when to send a wake-up again: a message too many is refused at its claim.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

__all__ = ["RECEIVED", "Received", "place_of", "sent_to"]

_PLACES, _LONGEST = 1000, 600


def place_of(route: Mapping[str, Any]) -> str:
    """What comes out in the order in which it went in: a queue and, in it, a priority."""
    queue = route.get("queue")
    name = getattr(queue, "name", queue) or f"{route.get('exchange') or ''} {route.get('routing_key') or ''}"
    return f"{name} {route.get('priority') or 0}"


def sent_to(route: Mapping[str, Any]) -> list[Any]:
    """What a message says of its sending: where, and when by this machine's clock (seconds since 1970)."""
    return [place_of(route), round(time.time(), 3)]


class Received:
    """The latest message out of each place, by the instant of its sending. Noted by the main loop, read by threads."""

    def __init__(self) -> None:
        self._latest_s: dict[str, float] = {}

    def note(self, ref: object) -> None:
        """A message with this header has come; what it says is not believed if it cannot be."""
        sent = ref.get("sent") if isinstance(ref, dict) else None
        if not isinstance(sent, list) or len(sent) != 2:
            return
        place, at_s = sent
        if not isinstance(place, str) or isinstance(at_s, bool) or not isinstance(at_s, int | float):
            return
        known_s = self._latest_s.get(place, 0.0)
        if known_s < at_s and (known_s or (len(place) <= _LONGEST and len(self._latest_s) < _PLACES)):
            self._latest_s[place] = float(min(at_s, time.time()))

    def is_overtaken(self, place: str, at_s: float) -> bool:
        """What was sent there before `at_s` (seconds since 1970) has been overtaken by a message sent later."""
        return self._latest_s.get(place, 0.0) > at_s


RECEIVED = Received()
"""Of this worker process."""
