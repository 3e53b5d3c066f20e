"""A handle of one run: follows it, waits for it, sends it signals and steers it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from celery_saga.client import export, outcome, progress, purity, sent
from celery_saga.client.awaiting import Awaited
from celery_saga.client.known import Catalogue, KnownSaga
from celery_saga.client.outcome import State
from celery_saga.client.progress import Progress
from celery_saga.client.waiting import is_due
from celery_saga.client.waiting_on import WaitingOn, waiting_on
from celery_saga.core import asked, failure
from celery_saga.core.records import HistoryRecord, RunRecord, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.engine.world import refuse_purged
from celery_saga.errors import ResultPurged, RunNotFound

if TYPE_CHECKING:
    from typing import Self

    from celery_saga.definition.signal import Signal
    from celery_saga.engine.engine import Engine

__all__ = ["RunHandle"]

R = TypeVar("R")
T = TypeVar("T")


@asked.known_as
class RunHandle(Awaited[R]):
    """One run, from outside. Reads the store when it is asked, until it has seen the end.

    Every method raises RunNotFound where there is no such run, and StoreUnavailable where the database cannot be
    reached; nothing was written then. Of a run that was purged but for its key there is the status, and all else raises
    ResultPurged.

    Args:
        engine: of the app that the run belongs to.
        run_id: its id.
        saga: its definition, which types the result, errors and signals; None: looked up when needed.
        created: this very start wrote the run.
        key: the run is addressed by saga and key, and may not exist yet.
        drive: in eager mode, executes what is due of the run; asked after something was done to it, and while waiting.
    """

    def __init__(
        self,
        engine: Engine,
        run_id: str,
        saga: KnownSaga | None = None,
        created: bool = True,
        *,
        key: str | None = None,
        drive: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(engine, run_id, drive)
        self._saga = saga
        self._created = created
        self._key = key
        self._is_due = False  # when it was seen last

    def __repr__(self) -> str:
        seen = "" if self._seen is None else f" {self._seen.run.status.value}"
        return f"<RunHandle {self._id}{seen}>"

    def __deepcopy__(self, memo: object) -> Self:
        """Another handle of the same run, as Django makes for each test of what `setUpTestData` has started."""
        return copy(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)

    # -- what it is ----------------------------------------------------------------------------------------------
    @property
    def id(self) -> str:
        """The run's id, a UUID: the root id of all its messages, and in the keywords of each of its tasks in Flower."""
        return self._id

    @property
    def key(self) -> str | None:
        """The run's key; None when it was started without one."""
        return self._key if self._key is not None else self._now().run.key

    @property
    def saga(self) -> str:
        """Name of its saga."""
        return self._saga.name if self._saga is not None else self._now().run.saga

    @property
    def created(self) -> bool:
        """The start that gave this handle wrote the run; False: it was there."""
        return self._created

    # -- following -----------------------------------------------------------------------------------------------
    @property
    def status(self) -> RunStatus:
        """Its status now."""
        return self._now().run.status

    @property
    def result(self) -> R | None:
        """What the body returned, of the annotated type; None until it has completed."""
        run = self._now().run
        refuse_purged(run)
        return outcome.result_of(run, self._known(run)) if run.status is RunStatus.COMPLETED else None

    @property
    def error(self) -> BaseException | None:
        """Why it did not complete, or why it is suspended; of a declared class where the saga is known here."""
        seen = self._now()
        return outcome.error_of(seen, self._known(seen.run))

    @property
    def waiting_on(self) -> list[WaitingOn]:
        """What it waits for now, oldest first: signals, timers, steps, children, undos; a person where it is parked."""
        store = self._engine.store
        return waiting_on(self._kept(), lambda: store.history(self._id), lambda: store.place_of(self._id))

    @property
    def progress(self) -> dict[str, Progress]:
        """How far its steps are, by step key; only those that have reported it with `current_step.progress`."""
        return progress.of_steps(self._kept().steps)

    def refresh(self) -> Self:
        """Read it again, even where its end was seen: an operator may have taken it up since."""
        self._seen = None
        self._now()
        return self

    def steps(self) -> list[StepRecord]:
        """Its steps of every generation, undos, waits and timers too, in the order in which they were ordered."""
        self._kept()
        return self._engine.store.steps(self._id, all_generations=True)

    def history(self) -> list[HistoryRecord]:
        """What has happened to it, in order; `seq` counts from 1."""
        self._kept()
        return self._engine.store.history(self._id)

    def export(self) -> dict[str, Any]:
        """All that is stored of it, as values that JSON can write: `format`, `run`, `steps`, `history`, `signals`.

        `CelerySaga.import_run` writes it into another database. Nothing of the run is changed by being exported.
        """
        self._kept()
        found = export.exported(self._engine.store, self._id)
        if found is None:
            raise RunNotFound(f"run {self._id!r}: it was purged while it was read.", run_id=self._id)
        return found

    # -- as Celery's AsyncResult ---------------------------------------------------------------------------------
    def get(self, timeout: float | timedelta | None = None, propagate: bool = True) -> R | BaseException:
        """`wait`, under Celery's name; with `propagate=False` an error of the run is returned, not raised."""
        propagate = asked.flag("RunHandle.get()", "propagate", propagate, "nothing was waited for")
        try:
            return self.wait(timeout)
        except outcome.ENDS as error:
            if propagate:
                raise
            return error

    def ready(self) -> bool:
        """It has ended."""
        return self._now().run.status.is_end

    def successful(self) -> bool:
        """It has completed."""
        return self._now().run.status is RunStatus.COMPLETED

    def failed(self) -> bool:
        """It has failed, or its undos have."""
        return self.state == "FAILURE"

    @property
    def state(self) -> State:
        """Its status in Celery's words: PENDING, STARTED, SUCCESS, FAILURE or REVOKED."""
        return outcome.STATES[self._now().run.status]

    # -- signals -------------------------------------------------------------------------------------------------
    @overload
    def signal(self, signal: Signal[T], value: T, *, id: str | None = None) -> Literal["delivered", "kept"]: ...
    @overload
    def signal(self, signal: str, value: object = None, *, id: str | None = None) -> Literal["delivered", "kept"]: ...
    @overload
    def signal(
        self, signal: Signal[Any] | str, *, id: str | None = None, error: BaseException
    ) -> Literal["delivered", "kept"]: ...

    def signal(
        self, signal: Any, value: object = None, *, id: str | None = None, error: BaseException | None = None
    ) -> Literal["delivered", "kept"]:
        """Send a signal.

        Args:
            signal: a Signal or its name.
            value: of the signal's type, or of the type that the saga declares.
            id: makes it the same signal when it is sent again; 1 to 200 characters; None: a new one.
            error: raised in the body instead of a value being returned.
        Returns:
            `delivered`: a wait has taken it; `kept`: it stays until a wait takes it or the run ends.
        Raises:
            InvalidPayload, PayloadTooLarge: no Signal or name, or the value is not of the type or cannot be stored.
            SignalNotExpected: the saga declares its signals, and this is none of them.
            SignalDuplicate: a signal of this name and id was sent before.
            SignalExpired: the run has ended, or the only wait for it is over.
            DefinitionError: called inside a body. In every case nothing was stored.
        """
        purity.forbid("RunHandle.signal()", "send it from a step's task")
        name, value_text = self._checked(signal, value, id=id, error=error)
        done = self._engine.signal(
            self._id,
            name,
            signal_id=id,
            value_text=value_text,
            error_text=None if error is None else failure.to_text(failure.capture(error)),
            may_precede=self._key is not None,
        )
        self._after()
        return "delivered" if done == "delivered" else "kept"

    def check_signal(
        self, signal: Any, value: object = None, *, id: str | None = None, error: BaseException | None = None
    ) -> str:
        """Refuse what `signal` would refuse before it asks the run; the signal's name. Arguments and errors as there.

        Nothing is sent.
        """
        return self._checked(signal, value, id=id, error=error)[0]

    # -- inside --------------------------------------------------------------------------------------------------
    def _checked(self, signal: Any, value: object, *, id: str | None, error: BaseException | None) -> tuple[str, str]:
        """The name of a signal, and its value as text."""
        name = sent.check(signal, value, id=id, error=error)
        self._check_signal(signal, name, value, has_error=error is not None)
        return name, self._encode(value, f"signal {name!r}")

    def _kept(self) -> Snapshot:
        """As it is now, its end too, if more than its key is left."""
        seen = self._now(anew=True)
        refuse_purged(seen.run)
        return seen

    def _now(self, *, anew: bool = False) -> Snapshot:
        purity.forbid_reading(f"the state of run {self._id!r}")
        if not anew and self._seen is not None and self._seen.run.status.is_end:
            return self._seen
        loaded = self._engine.store.load(self._id)
        if loaded is None:
            if self._engine.is_undone():
                raise RunNotFound(
                    f"run {self._id!r}: it was never there, the transaction that it was part of was rolled back.",
                    run_id=self._id,
                )
            if self._created or self._seen is not None:
                raise ResultPurged(f"run {self._id!r} is there no more: it was purged, with its result.")
            raise RunNotFound(f"run {self._id!r}: there is no such run.", run_id=self._id)
        self._seen, self._is_due = loaded.snapshot, is_due(loaded)
        return self._seen

    def _driven(self) -> Snapshot:
        """As it is now, once what has come due of it was done where runs are executed in their caller's process."""
        seen = self._now()
        if self._drive is None or seen.run.status.is_end or not self._is_due:
            return seen
        self._after()
        return self._now()

    def _outcome(self) -> R:
        seen = self._now()
        value: R = outcome.outcome_of(seen, self._known(seen.run))
        return value

    def _known(self, run: RunRecord) -> KnownSaga | None:
        mine = self._saga
        if mine is not None and (mine.name, mine.version) == (run.saga, run.version):
            return mine
        definitions: object = self._engine.definitions
        found = definitions.get(run.saga, run.version) if isinstance(definitions, Catalogue) else None
        return found or (mine if mine is not None and mine.name == run.saga else None)

    def _check_signal(self, signal: Any, name: str, value: object, *, has_error: bool) -> None:
        saga = self._saga
        if saga is None:
            loaded = self._engine.store.load(self._id)
            saga = None if loaded is None else self._known(loaded.snapshot.run)
        if not has_error and not isinstance(signal, str):
            signal.check(value)
        if saga is not None:
            saga.check_signal(name, value, has_error=has_error)
