"""Plays the scenes one after the other, shows them to a watcher, and compares each end with how it has to be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from celery_saga.client.handle import RunHandle
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.status import RunStatus
from celery_saga.demo import world
from celery_saga.demo.app import sagas
from celery_saga.demo.checkout import Receipt, checkout
from celery_saga.demo.scenes import Scene, error_of
from celery_saga.demo.stage import Stage, TooLate, wait_until
from celery_saga.errors import SagaError

__all__ = ["Outcome", "View", "Watcher", "play"]

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class View:
    """What there is to see of a scene now."""

    scene: Scene
    entries: tuple[world.Entry, ...]
    run: RunRecord
    steps: tuple[StepRecord, ...]


@dataclass(slots=True)
class Outcome:
    """How a scene ended; `differences` tell what should have been otherwise."""

    scene: Scene
    run_id: str
    status: RunStatus
    calls: tuple[str, ...]
    keys: int
    error: str | None
    charge_id: str | None
    took_s: float
    differences: list[str] = field(default_factory=list)

    @property
    def is_as_expected(self) -> bool:
        """All is as it has to be."""
        return not self.differences


class Watcher(Protocol):
    """Who is shown what happens."""

    def begin(self, scene: Scene) -> None:
        """A scene begins."""

    def tell(self, text: str) -> None:
        """Somebody does something."""

    def see(self, view: View) -> None:
        """This is how it is now; called often."""

    def end(self, view: View, outcome: Outcome) -> None:
        """The scene is over."""


class _Director:
    """Plays one scene."""

    def __init__(self, stage: Stage, scene: Scene, watcher: Watcher) -> None:
        self.stage = stage
        self.differences: list[str] = []
        self._scene = scene
        self._watcher = watcher
        self._run: RunHandle[Receipt] | None = None

    def play(self) -> Outcome:
        """The scene, from the start of the run to its end."""
        scene = self._scene
        begun_s = time.monotonic()
        self._watcher.begin(scene)
        world.arrange(scene.order.id, scene.trouble)
        run = self._run = checkout.start(scene.order)
        try:
            scene.play(self, run, scene.order)
        except (TooLate, SagaError, OSError) as error:
            self.differences.append(f"{type(error).__name__}: {error}")
        outcome = self._outcome(run, time.monotonic() - begun_s)
        self._watcher.end(self._view(run), outcome)
        return outcome

    def tell(self, text: str) -> None:
        """Say what is done now."""
        self._see()
        self._watcher.tell(text)

    def until(self, happens: Callable[[], bool], what: str) -> None:
        """Wait for something, while the run is shown."""

        def looked() -> bool:
            self._see()
            return happens()

        wait_until(looked, what, _PATIENCE_S)
        self._see()

    def check(self, claim: str, *, holds: bool) -> None:
        """Note a claim that does not hold."""
        if not holds:
            self.differences.append(f"not so: {claim}")

    def _see(self) -> None:
        if self._run is not None:
            self._watcher.see(self._view(self._run))

    def _view(self, run: RunHandle[Receipt]) -> View:
        # The books last: a call is seen before or with its step's end, never after it.
        record = sagas.engine.run_of(run.id)
        steps = tuple(sagas.store.steps(run.id))
        return View(self._scene, tuple(world.entries(self._scene.order.id)), record, steps)

    def _outcome(self, run: RunHandle[Receipt], took_s: float) -> Outcome:
        order = self._scene.order
        receipt = run.refresh().result
        outcome = Outcome(
            scene=self._scene,
            run_id=run.id,
            status=run.status,
            calls=tuple(world.calls(order.id)),
            keys=len({entry.key for entry in world.entries(order.id) if entry.key}),
            error=error_of(run),
            charge_id=None if receipt is None else receipt.charge_id,
            took_s=took_s,
        )
        outcome.differences = [*self.differences, *_differences(outcome)]
        return outcome


def _differences(outcome: Outcome) -> list[str]:
    wanted = outcome.scene.ending
    pairs = {
        "status": (wanted.status.value, outcome.status.value),
        "calls": (" > ".join(wanted.calls), " > ".join(outcome.calls)),
        "error": (wanted.error, outcome.error),
        "charge id": (wanted.charge_id, outcome.charge_id),
        "idempotency keys": (wanted.keys, outcome.keys),
    }
    return [f"{name}: expected {want}, got {got}" for name, (want, got) in pairs.items() if want != got]


def play(stage: Stage, scenes: Iterable[Scene], watcher: Watcher) -> list[Outcome]:
    """Play scenes on a stage with a running worker; in what state they ended, compared with what has to be."""
    return [_Director(stage, scene, watcher).play() for scene in scenes]
