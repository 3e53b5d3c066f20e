"""Verbs for bodies that change while their runs are alive, and for runs that go on for ever."""

from __future__ import annotations

from typing import Any, NoReturn

from celery_saga.core import patches
from celery_saga.core.renewing import Renewed
from celery_saga.core.replay import Suspended
from celery_saga.definition.names import has_control
from celery_saga.definition.verbs.base import Pass
from celery_saga.errors import DefinitionError

__all__ = ["Changes"]

_MAX_CHANGE = 100


class Changes(Pass):
    """Verbs for changes."""

    def patched(self, change_id: str) -> bool:
        """Whether this run takes up a change of the body: False for runs that had passed this place before it.

        A run that comes here for the first time records that it has the change, and gets True for ever after; a run
        that has gone further without it gets False. Both answers stay the same in every replay. In one scope, an
        `if` on one id may stand in several places: the first of them decides for all.

        Args:
            change_id: names the change; 1 to 100 characters. Another change gets another one.
        Raises:
            DefinitionError: this cannot be the name of a change; nothing was recorded.
        """
        self._check_outside_record("patched")
        is_name = isinstance(change_id, str) and 0 < len(change_id) <= _MAX_CHANGE and not has_control(change_id)
        if not is_name or any(c in "!#/[]" for c in change_id):
            raise DefinitionError(
                f"run {self.id!r}: run.patched() takes the name of a change, 1 to {_MAX_CHANGE} characters, none of "
                f"them ! # / [ ] or a control character, got {change_id!r}; nothing was recorded."
            )
        return patches.patched(self._replay, change_id)

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Begin again from the top of the body with these arguments, in a new generation of the same run.

        For a run that goes on for ever, so that its record does not grow for ever. Id, key, version and deadline stay,
        a handle goes on waiting, signals that nobody has taken are kept. What was done is committed: its undos are
        given up, a later failure or cancel undoes only what the new generation does. While something is still alive,
        such as the loser of a race, the run first waits for its end.

        Args:
            args, kwargs: as for `Saga.start`.
        Raises:
            InvalidPayload, PayloadTooLarge: the arguments do not fit the body or cannot be stored.
            DefinitionError: called in a scope, a part or a shield. In every case nothing was changed.
        """
        self._check_outside_record("continue_as_new")
        if self._replay.suspended:
            raise Suspended
        self._replay.check_bug()
        self._check_top("run.continue_as_new()")
        payload = self._saga.payload
        text, _ = payload.encode(payload.bind(args, kwargs), self._limit_bytes)
        self._replay.renewal = Renewed(text)
        self._replay.suspend()
