"""A laboratory for sagas: real engine and tasks in this thread, a database in memory, a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from celery import Celery, current_app

from celery_saga.client import binding
from celery_saga.client.filters import check_run_id
from celery_saga.client.handle import RunHandle
from celery_saga.core.retry import seconds
from celery_saga.definition.saga import Saga
from celery_saga.engine.engine import Engine
from celery_saga.errors import DefinitionError, SagaError
from celery_saga.runtime.headers import captured
from celery_saga.runtime.services import PerProcess, exchange
from celery_saga.runtime.step_task import install
from celery_saga.runtime.transactional import TransactionsOf, transactions_of, use_transactions
from celery_saga.testing.call import Call
from celery_saga.testing.clock import VirtualClock
from celery_saga.testing.future import live_runs, next_due
from celery_saga.testing.handle import LabHandle
from celery_saga.testing.line import Line
from celery_saga.testing.outbox import Outbox, Sent
from celery_saga.testing.place import LabRegistry, LabServices
from celery_saga.testing.planning import NOTHING, behaviour_of, check_count, matching, task_name
from celery_saga.testing.trouble import Crash, Died, Failing, Troubles

__all__ = ["Lab"]

P = ParamSpec("P")
R = TypeVar("R")

_MOST_MESSAGES = 10_000
_MOST_HOPS = 10_000


class Lab:
    """Runs sagas in the caller's thread, without broker, server, worker or waiting; a context manager.

    While it is entered, every saga of the process works with it, and steps of its runs are the app's real tasks,
    executed as a worker would: with `self.request`, `self.retry`, `autoretry_for` and `current_step`. Nothing happens
    by itself: `drain` does what is due now, `advance` moves the time. A worker's time limits are not simulated. What
    tasks send outside of their run is kept in `sent`.

    Args:
        app: the Celery app; None: the one that has celery_saga, else the current one.
        now: what its clock shows at first, an aware instant; None: 2026-01-01, midnight UTC.
    Raises:
        DefinitionError: `now` has no zone.
    """

    def __init__(self, app: Celery | None = None, *, now: datetime | None = None) -> None:
        self._given = app
        self._clock = VirtualClock(now)
        self.troubles = Troubles()
        """What is planned, and what was called."""
        self._line = Line(self.troubles)
        self._services: LabServices | None = None
        self._resolver: binding.Resolver | None = None
        self._before: PerProcess | None = None
        self._transactions: TransactionsOf | None = None
        self._stand_ins: list[str] = []
        self._outbox: Outbox | None = None
        self._current: Celery | None = None

    def __enter__(self) -> Lab:
        if self._services is not None:
            raise DefinitionError("this Lab is open already; make another one")
        app = _app_of(self._given)
        self._current = _real(current_app)
        app.set_current()  # as in a worker: shared tasks are those of this app
        services = self._line.services = LabServices(app, self._line, self._clock)
        services.store.trace = self.troubles.trace
        # What is sent from inside a body is refused by the tasks themselves.
        services.registry.before_pass = lambda: install(app)
        self._services = services
        self._before = exchange(app, PerProcess(lambda: services))
        # A framework's own connections lead to another database than the Lab's.
        self._transactions = transactions_of(app)
        use_transactions(app, None)
        self._resolver = binding.set_resolver(lambda _saga: self)
        self._outbox = Outbox(app)
        self._outbox.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        services, self._services = self._open(), None
        if self._outbox is not None:
            self._outbox.close()
        binding.set_resolver(self._resolver)
        exchange(services.app, self._before)
        use_transactions(services.app, self._transactions)
        for name in self._stand_ins:
            services.app.tasks.unregister(name)
        services.close()
        if self._current is not None:
            self._current.set_current()

    # -- runs ----------------------------------------------------------------------------------------------------
    def start(self, saga: Saga[P, R], /, *args: P.args, **kwargs: P.kwargs) -> LabHandle[R]:
        """Start a run; nothing of it is executed before `drain`. Arguments and errors as of `Saga.start`."""
        known = self._registry.get(saga.name, saga.version)
        if known is None or known.body is not saga.body:
            self._registry.put(saga)
        before = {run.id for run in live_runs(self.engine.store)} if self.troubles.crashes else set()
        try:
            with self._in_process():
                return self._handle(saga.start(*args, **kwargs), saga)
        except Died:
            written = [run.id for run in live_runs(self.engine.store) if run.id not in before]
        # Who died before anything was written has to start it again.
        return self._handle(saga.get(written[0]) if written else saga.start(*args, **kwargs), saga)

    def get(self, run: str | RunHandle[Any]) -> LabHandle[Any]:
        """A handle whose `wait` takes no real time, of a run that was started elsewhere.

        Args:
            run: its id, or another handle of it.
        """
        if isinstance(run, RunHandle):
            return self._handle(run, None)
        return LabHandle(self._until, self.engine, check_run_id(run), None, False)

    def drain(self) -> None:
        """Deliver all messages, and do all that is due now, until nothing is left. Moves no time.

        Raises:
            DefinitionError: called by a transactional step.
            SagaError: the runs never come to rest.
        """
        held = self._open().lab_renewals.in_transaction
        if held is not None:
            raise DefinitionError(
                f"the transactional step {held!r} runs, and the Lab's database has one connection: nothing was done. "
                "Let the test do it before or after the step."
            )
        for _ in range(_MOST_MESSAGES):
            if len(self._line):
                self._one(self._line.deliver)
            elif not self._one(self.engine.sweep):
                return
        raise SagaError(
            f"the runs have not come to rest after {_MOST_MESSAGES} messages at one instant. Does a body order steps "
            "without end?"
        )

    def advance(self, span: float | timedelta) -> None:
        """Move the clock, stopping wherever something is due on the way to do it. Drains first.

        Called by a task or a stub, it is that attempt which takes so long: its lease is kept up to its time-out.

        Args:
            span: in seconds or as timedelta, at least 0.
        """
        self._until(lambda: False, seconds(span, "advance()"))

    # -- what happened -------------------------------------------------------------------------------------------
    @property
    def calls(self) -> list[Call]:
        """Every call of a task by a run, stubs and failed attempts too, in order."""
        return list(self.troubles.calls)

    @property
    def sent(self) -> list[Sent]:
        """What was sent outside of a run, by `delay`, `apply_async` or `send_task`, in order; nobody executes it.

        Empty of what `task_always_eager` executes at once.
        """
        return [] if self._outbox is None else list(self._outbox.sent)

    @property
    def now(self) -> datetime:
        """What the clock shows, in UTC."""
        return self._clock.now

    @property
    def app(self) -> Celery:
        """The Celery app whose tasks are executed."""
        return self._open().app

    # -- trouble -------------------------------------------------------------------------------------------------
    def stub(self, task: Any, *, returns: Any = NOTHING, side_effect: Any = NOTHING) -> None:
        """Replace what a task does when it is called as a step; its signature and its retries stay.

        Args:
            task: the task, or its full name; a name that is not registered becomes a task while the Lab is open.
            returns: what the step returns; None where nothing is given.
            side_effect: instead: an error to raise, a function to call with the task's arguments (without `self`), or
                a list of values and errors, one a call.
        Raises:
            DefinitionError: both, or something else; nothing was planned.
        """
        name = task_name(task, "lab.stub()")
        self.troubles.stubs[name] = behaviour_of(returns, side_effect, "lab.stub()")
        if name not in self.app.tasks:
            make: Any = self.app.task
            make(name=name, shared=False, lazy=False, typing=False)(_stand_in)
            self._stand_ins.append(name)

    def fail(
        self,
        step: Any,
        exc: BaseException | type[BaseException],
        *,
        times: int | None = 1,
        after_effect: bool = False,
    ) -> None:
        """Let attempts of a step raise, as if its task did.

        Args:
            step: the step's key (`charge`, `charge#2`, `charge!undo`) or its task.
            exc: an error, or its class.
            times: so many attempts; None: every one.
            after_effect: the task is executed, and its result is lost.
        Raises:
            DefinitionError: something else; nothing was planned.
        """
        if not (isinstance(exc, BaseException) or (isinstance(exc, type) and issubclass(exc, BaseException))):
            raise DefinitionError(f"lab.fail() takes an error or its class, got {exc!r}; nothing was planned.")
        count = None if times is None else check_count(times, "lab.fail() times=")
        self.troubles.failing.append(Failing(matching(step, "lab.fail()"), exc, count, after_effect))

    def crash(self, *, before: Any = None, after: Any = None, at: int = 1) -> None:
        """Kill the worker, once: its message is lost, and all that it has not committed.

        Another one takes up what it held once its lease has ended, after `advance(31)` with the default settings.

        Args:
            before: just before the effect of this step, given by key or task; `"commit"`: just before a commit.
            after: just after the effect of this step, before its checkpoint; `"commit"`: just after a commit, before
                what follows from it is sent. With neither it is that.
            at: at which call of the step, or at which commit, counted from now on, from 1.
        Raises:
            DefinitionError: both, or no number; nothing was planned.
        """
        left = check_count(at, "lab.crash() at=")
        if before is not None and after is not None:
            raise DefinitionError("lab.crash() takes before= or after=, not both; nothing was planned.")
        step = after if before is None else before
        what = None if step is None or step == "commit" else matching(step, "lab.crash()")
        self.troubles.crashes.append(Crash("after" if before is None else "before", what, left))

    # -- what sagas and handles ask ------------------------------------------------------------------------------
    @property
    def engine(self) -> Engine:
        """The engine."""
        return self._open().engine

    @property
    def registry(self) -> LabRegistry:
        """The sagas that are known."""
        return self._registry

    @property
    def eager(self) -> bool:
        """Nothing is executed where it is started."""
        return False

    def headers(self) -> Mapping[str, str]:
        """Message headers to keep with a run that starts here."""
        return captured()

    def after_start(self, run_id: str) -> None:
        """Nothing: `drain` does it."""

    # -- inside --------------------------------------------------------------------------------------------------
    @property
    def _registry(self) -> LabRegistry:
        found = self._open().registry
        assert isinstance(found, LabRegistry)
        return found

    def _open(self) -> LabServices:
        if self._services is None:
            raise DefinitionError("this Lab is not open: write `with Lab() as lab:`, or use the fixture `lab`")
        return self._services

    def _handle(self, run: RunHandle[R], saga: Saga[Any, Any] | None) -> LabHandle[R]:
        return LabHandle(self._until, self.engine, run.id, saga, run.created, key=run.key)

    @contextmanager
    def _in_process(self) -> Iterator[None]:
        was, self.troubles.is_working = self.troubles.is_working, True
        try:
            yield
        finally:
            self.troubles.is_working = was

    def _one(self, work: Callable[[], object]) -> bool:
        """Let a process of ours do something, and perhaps die of it; whether there may be more to do."""
        try:
            with self._in_process():
                return work() != 0
        except Died:
            return True

    def _until(self, holds: Callable[[], bool], span_s: float | None) -> None:
        end = None if span_s is None else self._clock.later(span_s)
        self.drain()
        for _ in range(_MOST_HOPS):
            if holds():
                return
            # Schedules may go on for ever: without an end in time, only what runs are due for is waited for.
            due = next_due(self.engine.store, self._clock.now, schedules=end is not None)
            if due is None or (end is not None and due > end):
                if end is not None:
                    self._move(end)
                return
            self._move(due)
        raise SagaError(f"something is due at more than {_MOST_HOPS} instants; the clock stopped at {self.now}")

    def hop(self) -> bool:
        """Move the clock to whatever is due next, and do it; False: nothing ever is."""
        due = next_due(self.engine.store, self._clock.now, schedules=False)
        if due is not None:
            self._move(due)
        return due is not None

    def _move(self, at: datetime) -> None:
        renewals = self._open().lab_renewals
        while renewals.is_needed and self._clock.now < at:
            self._clock.now = min(at, self._clock.later(self.engine.limits.lease_s / 3))
            renewals.renew()
            self.drain()
        self._clock.now = max(at, self._clock.now)
        self.drain()


def _app_of(given: Celery | None) -> Celery:
    app: Any = given
    if app is None:
        try:
            app = getattr(binding.current(), "app", None)
        except DefinitionError:
            app = None
    return _real(current_app if app is None else app)


def _real(app: Any) -> Celery:
    get = getattr(app, "_get_current_object", None)
    real: Celery = app if get is None else get()
    return real


def _stand_in(*_: Any, **__: Any) -> None:
    """A task that only its stub says something about."""
