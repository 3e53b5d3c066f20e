"""Verbs for sections of a body: scopes, which undo only their own steps, shields, and the pivot between two."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from celery_saga.core import scopes
from celery_saga.core.pivot import PIVOT
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.shield import LEFT, SHIELD
from celery_saga.definition.names import check_name
from celery_saga.definition.verbs.base import Pass

__all__ = ["Sections"]


class Sections(Pass):
    """Verbs for sections."""

    def pivot(self) -> None:
        """Pass the point of no return: from here on the run only goes forward.

        A cancel answers `cancelled: False`. A step that fails is tried again until it succeeds, by the delays of its
        `retry=`, else 1 s doubling to 300 s; only NonRetryable ends it. What would end the run parks it instead: an
        error that leaves the body (reason `pivot`), the deadline (`deadline`), a step that is lost too often
        (`stalled`), and a bug, also with `on_bug="compensate"`. A person may then skip, resume, or compensate it.

        Raises:
            DefinitionError: called in a scope, a part or a shield; or a step that follows has a bounded `retry=`, one
                with max_attempts, on or never_on. Nothing was ordered.
        """
        self._check_outside_record("pivot")
        self._check_top("run.pivot()")
        self._mark(PIVOT)
        self._replay.pivoted = True

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """A part of the body that a cancel or deadline waits for: `with run.shield():`.

        The cancel answers `cancelled: True` at once, and is applied in the transaction in which the shield is left, by
        an error too; until then `current_step.cancelled` is False. Shields may be nested, and stand in scopes and in
        parts: the last one that the run holds counts. A join that is over does not wait for the shields of the parts
        that it abandons, and a run that is parked in a shield keeps the cancel waiting until it is resumed.

        Raises:
            DefinitionError: called in the function of `record`; nothing was recorded.
        """
        self._check_outside_record("shield")
        replay = self._replay
        self._mark(SHIELD)
        replay.shields += 1
        try:
            yield
        except Exception as error:
            scopes.note_bug(replay, "a shield", error, self._saga.errors)
            if replay.bug is None and not replay.suspended:
                self._mark(LEFT)
            raise
        else:
            self._mark(LEFT)
        finally:
            replay.shields -= 1

    def _mark(self, name: str) -> None:
        self._replay.ask(StepKind.MARK, name, task=name, make=lambda: Order(StepKind.MARK, "", "", 0))

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """A part of the body that undoes its own steps when an error leaves it: `with run.scope("shipment"):`.

        The error goes on once they are undone, last in first out, and may be caught outside; the run then goes another
        way, and does not undo them again when it fails later. What counts is an error that could end the run: of a
        step, a signal or a child, or of a class in the saga's `errors=`. Any other is a bug: the run parks, nothing is
        undone, and after the fix the body goes on inside. Catching a bug outside the scope parks the run too.

        Args:
            name: keys of what is asked for inside begin with it and a slash. As with steps, a second scope of the
                same name gets `#2`, a third `#3`.
        Raises:
            DefinitionError: this cannot be a name; nothing was ordered.
        """
        self._check_outside_record("scope")
        replay = self._replay
        key = scopes.enter(replay, check_name(name, "run.scope() name"))
        with replay.inside(key + "/"):
            scopes.begin(replay, key)
            try:
                yield
            except Exception as error:
                scopes.leave_by(replay, key, error, self._saga.errors)
                raise
            scopes.leave(replay, key)
