"""The workers of a chaos: a fixed number of places, in each of which somebody starts a new one when one has gone."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from tests.workers import Worker

AGAIN_S = 0.5
"""How long a place stays empty."""


class Place:
    """Where one worker after the other works.

    Args:
        hire: makes the next worker, not yet started.
    """

    def __init__(self, hire: Callable[[], Worker]) -> None:
        self._hire = hire
        self.lock = threading.RLock()
        self.worker = hire().start()
        self.gone_at = 0.0
        self.troubles: list[str] = []

    def family(self) -> list[psutil.Process]:
        """The worker's processes, the main one first; empty when it has gone."""
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            top = psutil.Process(self.worker.pid)
            if top.status() != psutil.STATUS_ZOMBIE:
                return [top, *top.children(recursive=True)]
        return []

    def refill(self) -> None:
        """Start another worker where the last one has been gone for a moment."""
        with self.lock:
            if self.family():
                self.gone_at = 0.0
            elif not self.gone_at:
                self.gone_at = time.monotonic()
            elif time.monotonic() - self.gone_at > AGAIN_S:
                self.gone_at = 0.0
                self.worker.kill()
                self._start()

    def _start(self) -> None:
        worker = self._hire()
        try:
            self.worker = worker.start()
        except AssertionError as error:  # the next turn tries again
            self.troubles.append(f"a worker did not start: {error}"[:4000])

    def stop(self) -> None:
        """A warm shutdown, after which the place is empty."""
        with self.lock:
            try:
                self.worker.stop()
            except AssertionError as error:
                self.troubles.append(str(error)[:4000])


class Fleet:
    """All places, and who looks after them."""

    def __init__(self, places: int, hire: Callable[[], Worker]) -> None:
        self.places: list[Place] = []
        try:
            for _ in range(places):
                self.places.append(Place(hire))
        except BaseException:
            for place in self.places:
                place.worker.kill()
            raise
        self._over = threading.Event()
        self._keepers = [threading.Thread(target=self._keep, args=(each,), daemon=True) for each in self.places]
        for keeper in self._keepers:
            keeper.start()

    def _keep(self, place: Place) -> None:
        while not self._over.wait(0.1):
            place.refill()

    def _dismiss(self) -> None:
        self._over.set()
        for keeper in self._keepers:
            keeper.join(60)

    @property
    def troubles(self) -> list[str]:
        """Workers that did not start, or did not stop."""
        return [each for place in self.places for each in place.troubles]

    def close(self) -> None:
        """Stop the workers in an orderly way."""
        self._dismiss()
        for place in self.places:
            if place.family():
                place.stop()

    def kill(self) -> None:
        """End whatever is left."""
        self._dismiss()
        for place in self.places:
            place.worker.kill()


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """SIGSTOP to all of them, SIGCONT at the end."""
    _signal(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(processes, signal.SIGCONT)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(number)
