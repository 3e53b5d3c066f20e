"""The sagas that a process knows: finds them, and lets their bodies decide."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from celery_saga.client import purity
from celery_saga.core import codec, failure, replay
from celery_saga.core.decision import Decision, Raised, Unreadable
from celery_saga.core.failure import Failure
from celery_saga.core.ports import StoredDefinition
from celery_saga.core.preview import Preview
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.replay import Live, Replay
from celery_saga.core.schedules import ScheduleRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.definition import declared
from celery_saga.definition.graph import build
from celery_saga.definition.graph.keeping import Keep, keep_ordered
from celery_saga.definition.payload import validate_as
from celery_saga.definition.run import Run
from celery_saga.definition.saga import Saga
from celery_saga.definition.scheduling import run_of
from celery_saga.engine.start import NewRun
from celery_saga.errors import DefinitionError, StoreUnavailable

__all__ = ["Registry"]

AnySaga = Saga[Any, Any]


class Registry:
    """Sagas by name and version.

    Args:
        sagas: those to begin with.
        max_payload_bytes: longest text of arguments, recorded values and results, in bytes of UTF-8.
    Raises:
        DefinitionError: two of them have one name and version.
    """

    def __init__(self, sagas: Iterable[AnySaga] = (), *, max_payload_bytes: int = 1024 * 1024) -> None:
        self._sagas: dict[tuple[str, int], AnySaga] = {}
        self._limit_bytes = max_payload_bytes
        self._replays: type[Replay] = Replay
        self.stored: Callable[[str, int], StoredDefinition | None] = _nothing_stored
        """Finds the definition that is stored of a saga that is not known; as `Store.definition`."""
        self.keep: Keep | None = None
        """Stores a definition, of a run that a body starts; as `Store.put_definition`."""
        self.secret_keys: Sequence[str] = ()
        """As the setting `saga_secret_keys`: the first signs the tokens that bodies make."""
        self.check_call: Callable[[str, str], bool] = _knows_no_task
        """Refuses arguments that a task does not take; see `client.known.CheckCall`."""
        self._found: dict[tuple[str, int], AnySaga] = {}
        self._kept: set[str] = set()  # digests of the graphs of `_sagas` that are the stored ones
        self.before_pass: Callable[[], object] = _nothing
        """Called before a body is executed, each time."""
        for saga in sagas:
            self.add(saga)

    def __iter__(self) -> Iterator[AnySaga]:
        return iter(self._sagas.values())

    def __len__(self) -> int:
        return len(self._sagas)

    def __contains__(self, saga: object) -> bool:
        return any(each is saga for each in self._sagas.values())

    def add(self, saga: AnySaga) -> None:
        """Know this saga from now on; the same function again replaces what it was.

        Raises:
            DefinitionError: no saga, or another one has its name and version; nothing was added.
        """
        if not isinstance(saga, Saga):
            raise DefinitionError(
                f"a registry takes sagas, got {saga!r}; nothing was added. Decorate the body with @saga."
            )
        there = self._sagas.get((saga.name, saga.version))
        if there is not None and _home(there) != _home(saga):
            raise DefinitionError(
                f"saga {saga.name!r} version {saga.version} is there twice, as {_home(there)} and {_home(saga)}; the "
                "second was not added. Give one of them another name=, or a changed body a new version=."
            )
        self._sagas[saga.name, saga.version] = saga

    def get(self, name: str, version: int) -> AnySaga | None:
        """The saga of this name and version; None where it is not known."""
        return self._sagas.get((name, version))

    def latest(self, name: str) -> AnySaga | None:
        """The saga of this name with the highest version; None where none is known."""
        versions = [version for known, version in self._sagas if known == name]
        return self._sagas[name, max(versions)] if versions else None

    def known(self) -> list[tuple[str, int]]:
        """Every (name, version) whose body is here."""
        return [each for each, saga in self._sagas.items() if saga.has_body]

    def is_declared(self, run: RunRecord, error: Failure) -> bool:
        """Whether the run's saga declares this error; False where the saga is not known."""
        saga = self.get(run.saga, run.version)
        return saga is not None and failure.matches(error, saga.errors)

    def decide(self, snapshot: Snapshot, now: datetime, live: Live | None = None, region: str = "") -> Decision | None:
        """Replay the body over the records of a run. Writes nothing; whatever the body raises is in the decision.

        Args:
            now: the database's time of the snapshot, aware UTC.
            live: executes new steps while the body waits for them; None: they are only ordered.
            region: of the part of a join whose function is decided; empty: the body itself.
        Returns:
            None: this process does not know the saga in this version, or cannot ask the database for it now.
        Raises:
            Incomplete: the snapshot holds too few of the run's steps.
        """
        run = snapshot.run
        try:
            saga = self._followed(run.saga, run.version)
        except StoreUnavailable:  # a checkpoint must not fail for that: the coordinator asks again
            return None
        if saga is None or not saga.has_body:
            return None
        self.before_pass()
        try:
            args, kwargs = saga.payload.decode(snapshot.run.input_text or "{}")
        except Exception as error:  # noqa: BLE001 - recorded: a validator of the user's may raise anything
            return Decision((), Unreadable(failure.capture(error)), region)
        pass_ = _Pass(saga, args, kwargs, self._limit_bytes, self._replays, self.secret_keys)
        decided = pass_.decide(snapshot, now, live, region)
        return self._with_graphs(decided, region)

    def _with_graphs(self, decided: Decision, region: str) -> Decision | None:
        """The decision, once the graphs of the runs that it starts are stored."""
        if self.keep is None:
            return decided
        try:
            keep_ordered(decided, self.get, self.keep, self._kept)
        except DefinitionError as error:
            return Decision((), Raised(failure.capture(error), declared=False), region)
        except StoreUnavailable:
            return None
        return decided

    def scheduled(self, schedule: ScheduleRecord, nominal_at: datetime) -> NewRun | None:
        """The run of one nominal time of a schedule, of the highest version known; nothing is written.

        Returns:
            None: no version of its saga is known that is as high as the schedule's.
        """
        saga = self.latest(schedule.saga)
        if saga is None or saga.version < schedule.version:
            saga = self._find(schedule.saga, schedule.version)
        return None if saga is None else run_of(saga, schedule, nominal_at, self._limit_bytes)

    def _followed(self, name: str, version: int) -> AnySaga | None:
        """The saga that runs of this name and version follow: of a graph the stored one, also where another is known.

        Raises:
            StoreUnavailable: the database is out of reach.
        """
        known = self.get(name, version)
        graph = None if known is None else build.graph_of(known.body)
        if known is not None and (graph is None or graph.digest in self._kept):
            return known
        found = self._find(name, version)
        stored = None if found is None else build.graph_of(found.body)
        if graph is None or stored is None:
            return known or found
        if stored.digest != graph.digest:
            return found
        self._kept.add(graph.digest)
        return known

    def _find(self, name: str, version: int) -> AnySaga | None:
        """The saga that is stored; kept apart from those of the project, which know more of it: its errors, its key."""
        found = self._found.get((name, version))
        if found is None:
            definition = self.stored(name, version)
            found = None if definition is None else build.of_text(Saga, definition.graph_text)
            if found is not None:
                self._found[name, version] = found
        return found

    def preview(self, snapshot: Snapshot, now: datetime, region: str = "") -> Decision | None:
        """As `decide`, but calls no function of `run.record` that was not called before; to look at, not to write."""
        looking = copy.copy(self)
        looking._replays, looking.keep = Preview, None
        return looking.decide(snapshot, now, region=region)


class _Pass:
    """One pass of one body."""

    def __init__(
        self,
        saga: AnySaga,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        limit_bytes: int,
        replays: type[Replay] = Replay,
        secret_keys: Sequence[str] = (),
    ) -> None:
        self._secret_keys = secret_keys
        self._saga = saga
        self._replays = replays
        self._args = args
        self._kwargs = kwargs
        self._limit_bytes = limit_bytes
        self._run: Run | None = None

    def decide(self, snapshot: Snapshot, now: datetime, live: Live | None, region: str) -> Decision:
        """What the body decides."""
        pass_ = self._replays(snapshot, now, self._rebuild, live, region)
        self._run = Run(pass_, self._saga, self._limit_bytes, self._secret_keys)
        return replay.decide(self._result_text, pass_, self._saga.errors)

    def _rebuild(self, error: Failure, record: StepRecord) -> BaseException:
        assert self._run is not None
        return self._run.rebuild(error, record)

    def _result_text(self, pass_: Replay) -> str:
        assert self._run is not None
        with purity.body(self._saga.name):
            result = self._saga.body(self._run, *self._args, **self._kwargs)
        if pass_.suspended:
            # The body swallowed its suspension: what it returned means nothing.
            return "null"
        what = f"the result of saga {self._saga.name!r}"
        validate_as(self._saga.payload.result_type, result, what)
        return codec.encode(result, limit_bytes=self._limit_bytes, what=what)


def _nothing() -> None:
    pass


def _nothing_stored(name: str, version: int) -> StoredDefinition | None:
    return None


def _home(saga: AnySaga) -> str:
    return declared.home(saga)


def _knows_no_task(task: str, args_text: str) -> bool:
    return False
