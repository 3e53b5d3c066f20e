"""A saga: its name, version and options, and the verbs that start and find its runs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from celery_saga.client import binding, purity
from celery_saga.client.filters import check_run_id
from celery_saga.client.handle import RunHandle
from celery_saga.core import codec
from celery_saga.core.failure import Failure
from celery_saga.definition import chart, declared, rebuild
from celery_saga.definition.body import check_body
from celery_saga.definition.calls import OPTION
from celery_saga.definition.canvas.body import body_of
from celery_saga.definition.graph import build
from celery_saga.definition.keys import check_key, key_function, new_run_id, run_id_of, run_id_of_task
from celery_saga.definition.lane import LaneOption, lane_choice
from celery_saga.definition.options import UNSET, SagaOptions, StartOptions, Unset, saga_options, start_options
from celery_saga.definition.payload import Payload, decode_as
from celery_saga.definition.scheduling import Schedulable
from celery_saga.definition.signal import Signal, check_sent
from celery_saga.definition.step import StepOptions
from celery_saga.engine.start import NewRun
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery.canvas import Signature

    from celery_saga.definition.run import Run

__all__ = ["Saga", "of_message"]

P = ParamSpec("P")
R = TypeVar("R")

Seconds = float | timedelta


class Saga(Schedulable, Generic[P, R]):
    """A body with a name, a version and options: made by `celery_saga.saga`, not by calling this."""

    def __init__(
        self,
        body: Callable[Concatenate[Run, P], R],
        options: SagaOptions,
        key: str | Callable[..., str] | None = None,
        *,
        payload: Payload | None = None,
    ) -> None:
        check_body(body, options.name)
        self._body = body
        self._options = options
        self._start = StartOptions()
        self.payload = Payload(body, saga=options.name) if payload is None else payload
        """What the body takes and returns, and how that is stored."""
        self._key_of = key_function(key, self.payload.signature, options.name)
        self.lane = lane_choice(options.lane, self.payload.signature, options.name)
        self.__doc__ = body.__doc__
        self.__wrapped__ = body

    @classmethod
    def from_canvas(
        cls,
        name: str,
        canvas: object,
        *,
        version: int = 1,
        key: str | Callable[..., str] | None = None,
        errors: Iterable[type[BaseException]] = (),
    ) -> Saga[..., Any]:
        """A saga whose body is a Celery canvas; see docs/canvases.md for what of one is carried.

        Args:
            name, version, errors: as of `saga`. A changed canvas gets a new version while runs of the old one live.
            canvas: a signature of a task, chain, group, chord, map, starmap or chunks, or the JSON of one. What
                `start()` takes goes to its first tasks, in front of their own arguments.
            key: as of `saga`; a template names `args` and `kwargs`, like `{args[0]}`.
        Raises:
            DefinitionError: the canvas holds what is not carried, all of which the text lists; or as `saga`.
            InvalidPayload: an argument in the canvas cannot be stored. In every case nothing was registered.
        """
        made = Saga(body_of(name, canvas), saga_options(name=name, version=version, errors=errors), key)
        declared.declare(made)
        return made

    def __repr__(self) -> str:
        return f"<Saga {self.name} version {self.version}>"

    if not TYPE_CHECKING:  # to a checker a call is an error, and a saga no function to be a part or to map with

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Raise DefinitionError, always: a body runs only as part of a run; nothing was started."""
            raise DefinitionError(
                f"saga {self.name!r} was called like a function; nothing was started. Write {self.name}.start(...), or "
                f"test its body with {self.name}.body(run, ...)."
            )

    # -- what it is ----------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """Its name: with the version it tells the saga from all others."""
        return self._options.name

    @property
    def version(self) -> int:
        """Its version, from 1; runs stay with the one that they were started with."""
        return self._options.version

    @property
    def body(self) -> Callable[Concatenate[Run, P], R]:
        """The function that was decorated."""
        return self._body

    @property
    def has_body(self) -> bool:
        """Its body is known here, so that its runs can be executed; of a declared saga only with its handler."""
        return True

    @property
    def settings(self) -> SagaOptions:
        """Its options, as given to `saga`."""
        return self._options

    @property
    def errors(self) -> tuple[type[BaseException], ...]:
        """Classes that are raised as themselves, and that end the forward part when they leave the body."""
        return self._options.errors

    @property
    def signals(self) -> Mapping[str, Signal[Any]]:
        """The declared signals, by name; empty: any signal will do."""
        return self._options.signals

    # -- sagas that are data -------------------------------------------------------------------------------------
    @classmethod
    def from_graph(
        cls,
        graph: Mapping[str, Any] | str,
        *,
        key: str | Callable[..., str] | None = None,
        errors: Iterable[type[BaseException]] = (),
    ) -> Saga[..., Any]:
        """The saga of a state graph: states as data, and the transitions between them.

        Its runs take one argument, the input. The graph is stored with the first run of its name and version; a worker
        that does not know it finds it there.

        Args:
            graph: as `celery_saga/definition/graph/graph.schema.json` says; or JSON text of it.
            key: as of `celery_saga.saga`; the parameter is called `input`: `{input.order}`.
            errors: classes that whoever waits for a run sees as themselves.
        Raises:
            DefinitionError: naming everything that is wrong with the graph; or its name and version are taken by
                another one. Nothing was registered.
        """
        return build.from_graph(cls, graph, key, errors)

    def diagram(self, run: RunHandle[Any] | None = None) -> str:
        """A flow chart as Mermaid text: of the saga's states or canvas, or of the steps of one of its runs.

        Args:
            run: draw its steps, as far as it has come.
        Raises:
            DefinitionError: no run is given and the saga is a function, whose steps are known from its runs only.
        """
        return chart.of_saga(self._body, self.name) if run is None else chart.of_steps(run.steps())

    # -- starting and finding ------------------------------------------------------------------------------------
    def start(self, /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """Commit a new run and send its first wake-up; with a key, find the run that is there already.

        Returns:
            A handle, whose `created` is False where the run was there.
        Raises:
            InvalidPayload: the arguments do not fit the body or cannot be stored, or the key is None or empty.
            PayloadTooLarge: the arguments are longer than `saga_max_payload_bytes`.
            IdempotencyConflict: the key is taken by a run with other arguments.
            RunExists: it is there, and `if_exists="raise"`.
            DefinitionError: called inside a body, or no app has celery_saga added.
            StoreUnavailable, SchemaOutdated: the database cannot be used. In every case nothing was written, unless
                the connection was lost while committing: starting again with the same key tells.
        """
        purity.forbid(f"{self.name}.start()", f"run.child({self.name}, ...), which starts it once")
        return self.start_at(binding.current(self), *args, **kwargs)

    def start_at(self, bound: binding.Binding, /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """`start`, outside of bodies and of an app that is given."""
        declared.refuse_namesake(self, bound.registry.get(self.name, self.version))
        headers = json.dumps(dict(bound.headers()))
        new = self.new_run(args, kwargs, limit_bytes=bound.engine.limits.max_payload_bytes, headers_text=headers)
        engine, drive = binding.engine_of(bound, self._start.connection)
        record, created = engine.start(new)
        if drive is not None:
            drive(record.id)
        return RunHandle(engine, record.id, self, created, key=record.key, drive=drive)

    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R]:
        """A signature that is a child in `run.group`, `run.map` and `run.race`; elsewhere the task that starts a run.

        Raises:
            DefinitionError: no app of this process has celery_saga added.
        """
        made = binding.signature(f"saga.{self.name}", args, kwargs)
        made["options"] = {**(made.get("options") or {}), OPTION: StepOptions(saga=self)}
        return made  # type: ignore[no-any-return]

    async def start_async(self, /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """`start` in a thread, so that the event loop goes on.

        Raises:
            DefinitionError: with connection=, which belongs to the caller's thread; nothing was written.
        """
        if self._start.connection is not None:
            raise DefinitionError(
                f"{self.name}.start_async() cannot take part in a caller's transaction, because it works in another "
                "thread; nothing was written. Write `await connection.run_sync(lambda c: "
                f"{self.name}.options(connection=c).start(...))`."
            )
        return await asyncio.to_thread(self.start, *args, **kwargs)

    def run_id(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """The id of the run that these arguments have, or would get; nothing is read or written.

        Raises:
            InvalidPayload: as `start`.
            DefinitionError: the saga has no key=, so each start gets a new id.
        """
        text, _ = self.payload.encode(self.payload.bind(args, kwargs))
        key = self._key(text)
        if key is None:
            raise DefinitionError(
                f"saga {self.name!r} has no key=, so the id of a run is known only once it is started."
            )
        return run_id_of(self.name, key)

    def get(self, run_id: str) -> RunHandle[R]:
        """A handle of the run with this id; nothing is read until it is asked. InvalidPayload: this is no run id."""
        return self._handle(check_run_id(run_id), None)

    def find(self, *, key: str) -> RunHandle[R]:
        """A handle of the run with this key, which need not exist yet; nothing is read until it is asked.

        Raises:
            InvalidPayload: this cannot be a key.
        """
        return self._handle(run_id_of(self.name, check_key(key, self.name)), key)

    @overload
    def options(self, *, detached: Literal[True], **others: Any) -> Saga[P, RunHandle[R]]: ...
    @overload
    def options(
        self,
        *,
        key: str | Unset | None = UNSET,
        countdown: Seconds | None = None,
        eta: datetime | None = None,
        deadline: Seconds | None = None,
        priority: int | None = None,
        lane: LaneOption | None = None,
        if_exists: Literal["return", "raise", "restart_failed"] | None = None,
        tags: Iterable[str] | None = None,
        detached: Literal[False] | None = None,
        connection: Any = None,
    ) -> Saga[P, R]: ...

    def options(  # type: ignore[misc]  # what else goes with detached= is as in the second
        self,
        *,
        key: str | Unset | None = UNSET,
        countdown: Seconds | None = None,
        eta: datetime | None = None,
        deadline: Seconds | None = None,
        priority: int | None = None,
        lane: LaneOption | None = None,
        if_exists: Literal["return", "raise", "restart_failed"] | None = None,
        tags: Iterable[str] | None = None,
        detached: bool | None = None,
        connection: Any = None,
    ) -> Any:
        """The same saga with options for what it starts; those of an earlier `options()` stay where not given again.

        Args:
            key: instead of what the saga's own key= gives.
            countdown: the first step is taken after so long, in seconds or as timedelta.
            eta: the first step is taken at this instant, aware.
            deadline: the run fails, and is undone, so long after its start.
            priority: 0 to 2097151, higher first.
            lane: what it queues in, as of `saga`.
            if_exists: with a key that is taken: return that run, raise RunExists, or start it over if it failed or
                was cancelled.
            tags: to list runs by.
            detached: in a body, `run.child()` starts a run of its own, and gives a handle of it at once.
            connection: a SQLAlchemy connection or session, or Django's connection, on the saga database: starts, and
                what is done through handles, is part of its open transaction.
        Raises:
            InvalidPayload: the key is None or empty.
            DefinitionError: a value that is not allowed.
        """
        said: dict[str, Any] = {"countdown": countdown, "eta": eta, "deadline": deadline, "priority": priority}
        said |= {"if_exists": if_exists, "tags": tags, "detached": detached, "connection": connection}
        said["lane"] = lane_choice(lane, self.payload.signature, self.name)
        given = start_options(self.name, **said)
        if not isinstance(key, Unset):
            given = replace(given, key=check_key(key, self.name))
        other = copy.copy(self)
        news = {name: value for name in given.__slots__ if (value := getattr(given, name)) is not None}
        if "countdown_s" in news or "eta" in news:
            news = {"countdown_s": None, "eta": None, **news}
        other._start = replace(self._start, **news)
        return other

    # -- what handles ask ----------------------------------------------------------------------------------------
    def read_result(self, text: str) -> R:
        """The result of a run, of the annotated type, from codec text.

        Raises:
            InvalidPayload: it does not fit the annotation any more.
        """
        result: R = decode_as(self.payload.result_type, codec.decode(text))
        return result

    def rebuild(self, error: Failure, *, step: str | None = None, attempts: int = 0) -> BaseException:
        """The exception that a stored error of a run stands for: itself where declared, else StepFailed."""
        return rebuild.of_run(error, self.errors, step=step, attempts=attempts)

    def check_signal(self, name: str, value: object, *, has_error: bool = False) -> None:
        """Refuse what no body of this saga could take.

        Args:
            has_error: it carries an error, so there is no value to look at.

        Raises:
            SignalNotExpected: the saga declares its signals, and this is none of them; nothing was sent.
            InvalidPayload: the value is not of the declared type, or cannot be stored; nothing was sent.
        """
        check_sent(self.signals, self.name, name, value, has_error=has_error)

    # -- what starts -----------------------------------------------------------------------------------------------
    @property
    def start_options(self) -> StartOptions:
        """What `options()` said."""
        return self._start

    def new_run(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, limit_bytes: int, headers_text: str = "{}"
    ) -> NewRun:
        """The run that a call would start; nothing is written. Errors as of `start`."""
        text, digest = self.payload.encode(self.payload.bind(args, kwargs), limit_bytes)
        key = self._key(text)
        said, given = self._options, self._start
        graph, lane = build.graph_of(self._body), given.lane or self.lane
        return NewRun(
            saga=self.name,
            version=self.version,
            run_id=given.run_id or new_run_id() if key is None else run_id_of(self.name, key),
            key=key,
            input_text=text,
            input_digest=digest,
            spec_text=said.spec_text(None if lane is None else lane.spec),
            headers_text=headers_text,
            countdown_s=given.countdown_s,
            eta=given.eta,
            deadline_s=said.deadline_s if given.deadline_s is None else given.deadline_s,
            priority=(said.priority or 0) if given.priority is None else given.priority,
            lane=None if lane is None else lane.name(self.payload, text, self.name),
            tags=said.tags if given.tags is None else given.tags,
            queue=said.queue,
            if_exists=given.if_exists or "return",
            graph_text=None if graph is None else graph.text,
            graph_digest="" if graph is None else graph.digest,
        )

    def _key(self, input_text: str) -> str | None:
        """The key for arguments as a worker reads them, so that it does not depend on who starts the run, or how."""
        if self._start.key is not None or self._key_of is None:
            return self._start.key
        args, kwargs = self.payload.decode(input_text)
        call = self.payload.signature.bind(*args, **kwargs)
        call.apply_defaults()
        return check_key(self._key_of(call.arguments), self.name)

    def _handle(self, run_id: str, key: str | None) -> RunHandle[R]:
        bound = binding.current(self)
        engine, drive = binding.engine_of(bound, self._start.connection)
        return RunHandle(engine, run_id, self, False, key=key, drive=drive)


def of_message(saga: Saga[P, R], task_id: str) -> Saga[P, R]:
    """The saga as a Celery message starts it: without a key, all deliveries of one task id find one run."""
    other = copy.copy(saga)
    other._start = replace(saga._start, run_id=run_id_of_task(saga.name, task_id))
    return other
