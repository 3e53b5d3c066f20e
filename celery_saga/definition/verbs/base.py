"""What every verb of a body works with: the pass that replays it, the saga, and how records turn into values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from celery_saga.core import codec
from celery_saga.core.failure import Failure
from celery_saga.core.log_fields import fields_of
from celery_saga.core.placing import Order
from celery_saga.core.records import StepRecord
from celery_saga.core.replay import Replay, value_of
from celery_saga.core.status import StepStatus
from celery_saga.definition import rebuild
from celery_saga.definition.log import RunLog
from celery_saga.definition.payload import decode_as
from celery_saga.errors import DefinitionError, InvalidPayload

if TYPE_CHECKING:
    from celery_saga.definition.saga import Saga

__all__ = ["MAX_PAYLOAD_BYTES", "Pass"]

MAX_PAYLOAD_BYTES: Final = 1024 * 1024


class Pass:
    """One pass over a run, as the verbs see it.

    Args:
        snapshot_replay: the replay that answers and orders.
        saga: the definition.
        limit_bytes: longest text of arguments, recorded values and results, in bytes of UTF-8.
        secret_keys: of which the first signs tokens.
    """

    def __init__(
        self,
        snapshot_replay: Replay,
        saga: Saga[Any, Any],
        limit_bytes: int = MAX_PAYLOAD_BYTES,
        secret_keys: Sequence[str] = (),
    ) -> None:
        self._replay = snapshot_replay
        self._secret_keys = secret_keys
        self._saga = saga
        self._limit_bytes = limit_bytes
        self._recording: str | None = None
        run = snapshot_replay.run
        fields = fields_of(run, run_id=run.id, run_key=run.key, generation=run.generation)
        self._log = RunLog(run.saga, fields, self._is_replaying)
        self._classes: tuple[type[BaseException], ...] = ()

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.saga} version {self.version}>"

    @property
    def replay(self) -> Replay:
        """The replay of this pass; of the engine, not for bodies."""
        return self._replay

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return self._replay.run.id

    @property
    def key(self) -> str | None:
        """Its key; None when it was started without one."""
        return self._replay.run.key

    @property
    def saga(self) -> str:
        """Name of its saga."""
        return self._replay.run.saga

    @property
    def version(self) -> int:
        """Version of its saga, to which it is pinned."""
        return self._replay.run.version

    @property
    def generation(self) -> int:
        """1, and one more each time that it started over."""
        return self._replay.run.generation

    @property
    def scheduled_for(self) -> datetime | None:
        """The instant that a schedule started it for; None when it was started otherwise."""
        return self._replay.run.scheduled_for

    @property
    def log(self) -> RunLog:
        """A logger that is silent while the body is only replayed."""
        return self._log

    # -- inside --------------------------------------------------------------------------------------------------
    def _done(
        self, settled: StepRecord | Order, classes: Callable[[], tuple[type[BaseException], ...]] = tuple
    ) -> StepRecord:
        """The record, where it is done; else its error is raised, of one of these classes or the saga's own."""
        assert isinstance(settled, StepRecord)
        if settled.status is StepStatus.DONE:
            return settled
        self._classes = (*self._saga.errors, *classes())
        raise self._replay.failed(settled)

    def rebuild(self, error: Failure, record: StepRecord) -> BaseException:
        """The exception of a failed record, of a class that the saga or this call knows."""
        return rebuild.of_step(error, record, self._classes)

    def _read(self, record: StepRecord, type_: Any) -> Any:
        value = codec.decode(value_of(record))
        try:
            return decode_as(type_, value)
        except InvalidPayload as error:
            text = str(error).replace("value", f"the result of step {record.key!r}", 1)
            raise InvalidPayload(
                f"run {self.id!r}: {text} Correct the task's return annotation, or give type=.", path=error.path
            ) from None

    def _encode(self, value: object, what: str) -> str:
        return codec.encode(value, limit_bytes=self._limit_bytes, what=what)

    def _check_outside_record(self, verb: str) -> None:
        if self._recording is not None:
            raise DefinitionError(
                f"run {self.id!r}: run.{verb}() was called in the function of run.record({self._recording!r}); nothing "
                "was recorded. Call it in the body and give the function its value."
            )

    def _check_top(self, where: str) -> None:
        """Only at the top of the body there is a way back from everything."""
        inside = self._replay.scope.prefix.rstrip("/") or ("shield" if self._replay.shields else "")
        if inside and not self._replay.suspended:
            raise DefinitionError(
                f"run {self.id!r}: {where} was called inside {inside!r}; nothing was ordered. "
                "Call it in the body itself, outside scopes, parts and shields."
            )

    def _is_replaying(self) -> bool:
        replay = self._replay
        if replay.suspended:
            return True
        return replay.is_recorded_next()
