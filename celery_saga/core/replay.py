"""Replays a body over the records of its run: a call returns what is recorded, or places an order and suspends.

Theory of operation. `Replay` is one pass. Each call of the body asks for something (`ask`): its key is derived from
names and counters of its scope, and compared with the record of that key and of that place. A settled record is
returned (or its error raised); anything else suspends the pass by `Suspended`, a BaseException. After that every call
suspends again and records nothing, so that `finally:` and bare `except:` do no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from celery_saga.core import failure
from celery_saga.core.decision import Completed, Decision, End, Mismatch, Raised
from celery_saga.core.failure import Failure
from celery_saga.core.focus import Incomplete, part_of, region_of
from celery_saga.core.mismatch import both_arguments, mismatch_of
from celery_saga.core.pivot import refuse_bounded
from celery_saga.core.places import Scope, called, caught_bug, check_step_name, has_place, name_of
from celery_saga.core.placing import AT_ONCE, Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.renewing import Renewed
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.undo import is_undo_pending
from celery_saga.errors import DefinitionError, DuplicateStepError, NonDeterminismError, SagaError

Rebuild = Callable[[Failure, StepRecord], BaseException]
"""Turns a recorded error into the exception that the body sees."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A step that was executed while the body waited for it: its record, and the database's time of it."""

    record: StepRecord
    now: datetime


Live = Callable[[tuple[Order, ...]], Settled | None]
"""Executes the last of these orders, all new, while the body waits; None: it does not, so the pass is suspended."""

_SETTLED = (StepStatus.DONE, StepStatus.FAILED, StepStatus.LOST, StepStatus.CANCELLED)
_SHOWN = 200  # characters of arguments in an error


class Suspended(BaseException):
    """Leaves the body at the first call without a settled record. Not an Exception: user code must not catch it."""


class Replay:
    """One pass of a body over a snapshot.

    Args:
        snapshot: the records to replay; its steps are those of the present generation.
        now: the database's time of the snapshot, used for records that hold the time.
        rebuild: makes the exception of a failed record.
        live: executes new steps while the body waits; None: each suspends the pass.
        region: of the part whose function is to be decided; empty: the body itself.
    """

    def __init__(
        self, snapshot: Snapshot, now: datetime, rebuild: Rebuild, live: Live | None = None, region: str = ""
    ) -> None:
        self.snapshot = snapshot
        self.run = snapshot.run
        self.now = now
        self.orders: list[Order] = []
        self.scope = Scope()
        self.suspended = False
        self.mismatch: NonDeterminismError | None = None
        self.renewal: Renewed | None = None  # the body asked to begin again
        self.asked: set[str] = set()  # keys of the changes that the body has asked for with `patched`
        self.region = region
        self.part_end: Completed | Raised | None = None
        self.incomplete: Incomplete | None = None
        self.folds: dict[str, str] = {}  # results of joins that are over, by key
        self.pivoted = False  # the body has come to its point of no return
        self.shields = 0  # that the body is inside of
        self.bug: tuple[str, Exception] | None = None  # which section it left, without being undone
        self._rebuild = rebuild
        self._live = live
        self._visited: set[str] = set()
        self._handed: dict[str, str] = {}  # idempotency keys given to the body for steps it has not asked for yet
        self._raised: dict[int, tuple[BaseException, str | None]] = {}
        self._at = {(x.scope, x.ordinal): x for x in snapshot.steps.values() if has_place(x)}

    # -- keys --------------------------------------------------------------------------------------------------
    def peek_key(self, name: str) -> str:
        """The key that the next call of this name gets in the present scope."""
        count = self.scope.seen.get(name, 0) + 1
        return self.scope.prefix + (name if count == 1 else f"{name}#{count}")

    def idempotency_key(self, name: str) -> str:
        """The idempotency key of the next step of this name: the recorded one where it is recorded."""
        self._check()
        step_key = self.peek_key(name)
        key = self._idempotency_key(step_key)
        self._handed[key] = step_key
        return key

    def _idempotency_key(self, step_key: str) -> str:
        record = self.snapshot.steps.get(step_key)
        return f"{self.run.id}:{self.run.generation if record is None else record.born}:{step_key}"

    def draw(self) -> uuid.UUID:
        """A value that is the same in every replay: derived from run id, generation and a counter of the scope.

        The generation is that of the record at this place, where there is one, so that a retried run which keeps its
        first steps keeps the values that went into them.
        """
        self._check()
        self.scope.draws += 1
        record = self._at.get((self.scope.prefix, self.scope.next_ordinal))
        generation = self.run.generation if record is None else record.born
        seed = f"{self.run.id}:{generation}:{self.scope.prefix}:{self.scope.draws}"
        return uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4)

    @contextlib.contextmanager
    def inside(self, prefix: str) -> Iterator[None]:
        """Calls belong to this scope, with counters of its own, until it is left.

        Args:
            prefix: the whole path of the scope, with a slash at its end.
        """
        outer, self.scope = self.scope, Scope(prefix, left=self.scope.left)
        try:
            yield
        finally:
            self.scope = outer

    # -- calls of the body -------------------------------------------------------------------------------------
    def ask(
        self,
        kind: StepKind,
        name: str,
        *,
        explicit: bool = False,
        task: str = "",
        digest: str = "",
        make: Callable[[], Order] | None = None,
        follow: Callable[[], None] | None = None,
    ) -> StepRecord | Order:
        """The settled record of this call, or the order just placed.

        Args:
            name: base of the key; `#2`, `#3` follow for repeats in the scope, which an explicit name may not have.
            task: task or signal name, compared with the record.
            digest: hash of the arguments, compared with the record.
            make: gives the parts of a new order; called only when there is no record.
            follow: places the orders that belong to the new one; called after it.
        Raises:
            Suspended: the record is not settled, or the pass was suspended before.
            DuplicateStepError: the explicit name was used before in this scope.
        """
        key, ordinal, record = self.claim_key(kind, name, explicit=explicit, task=task, digest=digest, make=make)
        if record is not None:
            if record.status in _SETTLED and not is_undo_pending(self.snapshot, record):
                return record
            self.suspend()
        assert make is not None
        self.check_open(key)
        self.check_region(key)
        parts = make()
        self._refuse_foreign_key(parts.args_text, key)
        order = replace(
            parts, kind=kind, key=key, scope=self.scope.prefix, ordinal=ordinal, task=task, args_digest=digest
        )
        refuse_bounded([order] if self.pivoted else [])
        self.orders.append(order)
        if follow is not None:
            follow()
        return order if kind in AT_ONCE or (kind is StepKind.JOIN and not order.join_total) else self._executed(kind)

    def claim_key(
        self,
        kind: StepKind,
        name: str,
        *,
        explicit: bool = False,
        task: str = "",
        digest: str = "",
        make: Callable[[], Order] | None = None,
    ) -> tuple[str, int, StepRecord | None]:
        """Key and place of a call, and its record where it agrees with what is asked for; parameters as of `ask`."""
        self._check()
        key = self._take_key(name, explicit)
        ordinal, self.scope.next_ordinal = self.scope.next_ordinal, self.scope.next_ordinal + 1
        record = self.snapshot.steps.get(key)
        if self._handed:
            self._handed.pop(self._idempotency_key(key), None)
        self._compare(record, kind, key, ordinal, task, digest, make)
        if record is not None:
            self._visited.add(key)
        return key, ordinal, record

    def _executed(self, kind: StepKind) -> StepRecord:
        """The record of the step ordered last, if it is executed now; what was ordered up to it is written then."""
        settled = None if self._live is None or kind is not StepKind.STEP else self._live(tuple(self.orders))
        if settled is None:
            self.suspend()
        self.orders.clear()
        self.now = settled.now
        if is_undo_pending(self.snapshot, settled.record):
            self.suspend()
        return settled.record

    def suspend(self) -> NoReturn:
        """Leave the body; from now on every call leaves it again.

        Raises:
            Suspended: always.
        """
        self.suspended = True
        raise Suspended

    def failed(self, record: StepRecord, of: StepRecord | None = None) -> BaseException:
        """The exception that a failed record stands for; remembered as raised by the engine.

        Args:
            of: the step whose error it is, where that is another one: the part that failed a join.
        """
        error = record.error or Failure(
            "celery_saga.errors.StepFailed", (), "no error was recorded", None, None, "", None, None
        )
        exc = self._rebuild(error, of or record)
        self._raised[id(exc)] = (exc, record.key)
        return exc

    def _refuse_foreign_key(self, args_text: str, key: str) -> None:
        """A key that was asked for by a wrong name would be the same for every repeat of this step."""
        for handed, name in self._handed.items():
            if handed in args_text:
                raise DefinitionError(
                    f"step {key!r}: its arguments hold the idempotency key of step {name!r}, which was not ordered; "
                    f"nothing was ordered. Write run.idempotency_key({key.rpartition('/')[2].partition('#')[0]!r})."
                )

    def check_region(self, key: str) -> None:
        """A pass over a part orders nothing outside that part."""
        if self.region and region_of(self.scope.prefix) != self.region:
            self.miss(f"part {part_of(self.region)!r} is recorded, the body now asks for {key!r} before it comes there")

    def check_open(self, key: str) -> None:
        """A scope that was left by an error orders nothing new."""
        if self.scope.left is not None:
            self.miss(
                f"scope {self.scope.left!r} was left by an error and is undone, the body now asks for {key!r} in it"
            )

    def check_bug(self) -> None:
        """A bug that left a section of the body leaves the body too: what it did is neither undone nor kept.

        Raises:
            DefinitionError: the body caught it.
        """
        if self.bug is not None:
            raise DefinitionError(f"run {self.run.id!r}: {caught_bug(*self.bug)}")

    def _check(self) -> None:
        if self.suspended:
            raise Suspended
        self.check_bug()

    def _take_key(self, name: str, explicit: bool) -> str:
        check_step_name(name, self.scope.prefix)
        scope = self.scope
        if explicit and (name in scope.named or name in scope.seen):
            raise DuplicateStepError(
                f"run {self.run.id!r}: the step name {name!r} is used twice in one scope; nothing was ordered, "
                "give each its own name="
            )
        if explicit:
            scope.named.add(name)
        key = self.peek_key(name)
        scope.seen[name] = scope.seen.get(name, 0) + 1
        return key

    def _compare(
        self,
        record: StepRecord | None,
        kind: StepKind,
        key: str,
        ordinal: int,
        task: str,
        digest: str,
        make: Callable[[], Order] | None,
    ) -> None:
        there = self._at.get((self.scope.prefix, ordinal))
        if there is not None and there is not record:
            self.miss(
                f"place {ordinal} of scope {self.scope.prefix!r} holds {name_of(there)}, the body now asks for "
                f"{called(kind, key, task)}"
            )
        if record is None:
            return
        if record.ordinal != ordinal or record.scope != self.scope.prefix:
            self.miss(f"{name_of(record)} is recorded at place {record.ordinal}, the body asks for place {ordinal}")
        if record.kind is not kind or record.task != task:
            self.miss(f"recorded is {name_of(record)}, the body now asks for {called(kind, key, task)}")
        if digest and record.args_digest != digest:
            given = "others" if make is None else make().args_text
            self.miss(f"{name_of(record)} was ordered {both_arguments(record.args_text, given)}")

    def miss(self, text: str) -> None:
        """The body no longer asks for what is recorded: the pass is over, and the run parks with both sides told.

        Raises:
            Suspended: always.
        """
        if self.mismatch is None:
            self.mismatch = mismatch_of(self.snapshot, text, self.asked)
        self.suspend()

    def is_recorded_next(self) -> bool:
        """What the body asks for next in its present scope is recorded."""
        return (self.scope.prefix, self.scope.next_ordinal) in self._at

    def placed(self) -> Iterable[StepRecord]:
        """Records of what the body asked for at a place of a scope, of all scopes that are here."""
        return self._at.values()

    # -- the end of the pass -----------------------------------------------------------------------------------
    def finish(self, end: End | None) -> Decision:
        """The decision of this pass, given how the body was left (None: suspended)."""
        if self.renewal is not None and self.region and self.mismatch is None:
            self.miss_part()
        end = self.renewal if end is None else end
        if self.mismatch is None and isinstance(end, (Completed, Raised, Renewed)):
            self._all_visited(end)
        if self.mismatch is not None:
            return Decision((), Mismatch(failure.capture(self.mismatch)), self.region)
        return Decision(tuple(self.orders), end, self.region, tuple(self.folds.items()))

    def _all_visited(self, end: Completed | Raised | Renewed) -> None:
        left = [x for x in self._at.values() if x.key not in self._visited and region_of(x.scope) == self.region]
        if left:
            how = "ended"
            if isinstance(end, Raised):
                how = f"was left by {end.error.type_name.rpartition('.')[2]}: {end.error.message}"[: 2 * _SHOWN]
            with contextlib.suppress(Suspended):
                self.miss(f"{name_of(left[0])} is recorded, but the body {how} without asking for it")

    def miss_part(self) -> None:
        """The body ended without coming to the part that was to be decided."""
        with contextlib.suppress(Suspended):
            self.miss(f"part {part_of(self.region)!r} is recorded, but the body ended without coming to it")

    def raised(self, exc: BaseException, errors: Iterable[type[BaseException]]) -> Raised:
        """How an exception that left the body counts: the engine's and declared ones end the run, others are bugs."""
        known = self._raised.get(id(exc))
        declared = known is not None or isinstance(exc, tuple(errors))
        if isinstance(exc, (DefinitionError, DuplicateStepError)):
            declared = False
        return Raised(failure.capture(exc), declared, None if known is None else known[1])


def decide(body: Callable[[Replay], str], replay: Replay, errors: Iterable[type[BaseException]]) -> Decision:
    """One pass: run the body over the records and say what it decided; never raises what the body raised.

    Args:
        body: calls the user's function with a Run over this replay and returns codec text of its result.
        errors: the classes that end the forward part when they leave the body.
    Raises:
        Incomplete: the snapshot holds too few of the run's steps.
    """
    end: End | None
    try:
        result_text = body(replay)
        replay.check_bug()
    except Suspended:
        strayed = SagaError(f"run {replay.run.id!r}: the body called a Run of another pass; use what it was given")
        end = replay.part_end if replay.suspended else Raised(failure.capture(strayed), declared=False)
    except Exception as exc:  # noqa: BLE001 - recorded: it decides how the run goes on
        end = replay.part_end if replay.suspended else replay.raised(exc, errors)
    else:
        end = Completed(result_text)
        if replay.suspended and replay.mismatch is None:
            swallowed = SagaError(
                f"run {replay.run.id!r}: the body swallowed its suspension and returned; let BaseException pass "
                "(no `except BaseException:` or `return` in `finally:`)"
            )
            return Decision((), Raised(failure.capture(swallowed), declared=False), replay.region)
    if replay.incomplete is not None:
        raise replay.incomplete
    if replay.region and not replay.suspended:
        replay.miss_part()
    return replay.finish(end)


def value_of(settled: StepRecord | Order) -> Any:
    """Codec text of what a settled record, or a record placed just now, holds."""
    return settled.result_text or "null"
