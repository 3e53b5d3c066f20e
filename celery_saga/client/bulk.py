"""One verb for all runs of a filter: each a transaction of its own, a dry run first, continued where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from celery_saga.client.desk import REASONS
from celery_saga.client.filters import whole_number
from celery_saga.client.page import Page
from celery_saga.core import asked
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.engine.looking import looking
from celery_saga.errors import InvalidPayload, SagaError, SignalDuplicate, StoreUnavailable

if TYPE_CHECKING:
    from celery_saga.engine.engine import Engine

__all__ = ["VERBS", "BulkAction", "BulkResult", "Refused", "bulk", "steering"]

_FORWARD = tuple(each.value for each in RunStatus if each.is_forward)
_LIVE = tuple(each.value for each in RunStatus if not each.is_end)

VERBS: Mapping[str, tuple[str, ...]] = {
    "cancel": (*_FORWARD, "suspended"),
    "suspend": (*_FORWARD, "compensating"),
    "resume": ("suspended",),
    "compensate": ("suspended",),
    "retry": ("failed", "cancelled"),
    "signal": _LIVE,
}
"""The statuses of the runs that a verb is for, where the filter names none."""

_PAGE = 500
_DEFAULT_LIMIT = 1000

Lists = Callable[..., Page[RunRecord]]
"""`app.saga.runs`, which is told first for which call it lists."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A run of which a verb was refused with nothing changed: the code of the error, and its text."""

    run_id: str
    code: str
    message: str

    @property
    def why(self) -> str:
        """The text for a list of runs: without the run's id, and without what is told of every refusal."""
        return self.message.removeprefix(f"run {self.run_id!r}: ").partition("; nothing was ")[0]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a verb has done to the runs of a filter.

    Args:
        verb: the verb.
        dry_run: nothing was written; `done` are those for which it would have been done.
        matched: how many runs were looked at, at most `limit`.
        done: ids of those of which it was done, newest first.
        unchanged: ids of those where it had nothing to change: cancelled already, past the pivot, a signal sent before.
        refused: those where it was refused, each with the error's code.
        next: `after=` of the call that goes on where this one has stopped; None: there are no more.
        stopped: why it stopped before its limit: the database was out of reach; None: it did not.
        runs: those that were looked at, as they were before, newest first; without input and result.
    """

    verb: str
    dry_run: bool
    matched: int
    done: tuple[str, ...]
    unchanged: tuple[str, ...]
    refused: tuple[Refused, ...]
    next: str | None = None
    stopped: Refused | None = None
    runs: tuple[RunRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A verb with its arguments.

    Args:
        verb: of VERBS.
        real: does it to a run; whether it changed something.
        dry: tells the same without doing it, or raises as `real` would.
    """

    verb: str
    real: Callable[[str], bool]
    dry: Callable[[str], bool]


def steering(engine: Engine, verb: str, *, compensate: bool, reason: str, by: str | None) -> BulkAction:
    """A verb of `RunHandle` for many runs.

    Args:
        compensate: of `cancel`: the undos follow.
    Raises:
        InvalidPayload: there is no such verb for many runs; nothing was changed.
    """
    if not isinstance(verb, str) or verb not in VERBS or verb == "signal":
        known = ", ".join(name for name in VERBS if name != "signal")
        raise InvalidPayload(
            f"bulk(): the verb must be of {known}, got {asked.shown(verb)}; nothing was changed. "
            "Send a signal by bulk_signal().",
            path="verb",
        )
    compensate = asked.flag(f"bulk {verb}", "compensate", compensate)
    asked.check_told(f"bulk {verb}", reason=reason, by=by)

    def of(engine: Engine) -> Callable[[str], bool]:
        def act(run_id: str) -> bool:
            if verb == "cancel":
                done = engine.cancelling(run_id, compensate=compensate, reason=reason, by=by)
                return done.new is not done.old
            getattr(engine, verb)(run_id, reason=reason, by=by)
            return True

        return act

    return BulkAction(verb, of(engine), of(looking(engine)))


def bulk(
    action: BulkAction,
    runs: Lists,
    filters: Mapping[str, Any],
    *,
    dry_run: bool,
    limit: int | None,
    after: str | None,
    reason_code: str | None = None,
) -> BulkResult:
    """Do it to the runs that a filter names, newest first.

    Args:
        filters: as of `runs`, at least one; without a status those that the verb is for.
        limit: at most so many runs, 1 to 10000; None: 1000.
        reason_code: only runs that are parked for this.
    Raises:
        InvalidPayload: a filter that is not allowed, or none; nothing was changed.
    """
    call = f"bulk {action.verb}"
    dry_run = asked.flag(call, "dry_run", dry_run)
    if reason_code is not None and (not isinstance(reason_code, str) or reason_code not in REASONS):
        raise asked.refused(call, "reason_code", f"must be of {', '.join(REASONS)}", reason_code, "nothing was changed")
    given = {name: value for name, value in filters.items() if value is not None and value is not False}
    if not given and reason_code is None:
        raise InvalidPayload(
            f"{call}: no filter was given, which would be every run; nothing was changed. Name a saga, a "
            "status, a tag or a time.",
            path="filters",
        )
    given.setdefault("status", None if given.get("attention") else VERBS[action.verb])
    most = whole_number(_DEFAULT_LIMIT if limit is None else limit, "limit", call)
    tally = _Tally(action, dry_run=dry_run)
    for run in _matching(partial(runs, call), given, after, reason_code):
        if tally.matched == most:
            return tally.result(tally.last)
        if not tally.take(run):
            return tally.result(tally.last if tally.last is not None else after)
    return tally.result(None)


class _Tally:
    def __init__(self, action: BulkAction, *, dry_run: bool) -> None:
        self._action, self._dry_run = action, dry_run
        self._act = action.dry if dry_run else action.real
        self._done: list[str] = []
        self._unchanged: list[str] = []
        self._refused: list[Refused] = []
        self._stopped: Refused | None = None
        self._runs: list[RunRecord] = []
        self.matched = 0
        self.last: str | None = None

    def take(self, run: RunRecord) -> bool:
        """Do it to one run; False: no further one can be done now."""
        run_id = run.id
        try:
            kind = self._done if self._act(run_id) else self._unchanged
            kind.append(run_id)
        except SignalDuplicate:
            self._unchanged.append(run_id)
        except StoreUnavailable as error:
            self._stopped = Refused(run_id, error.code, str(error))
            return False
        except SagaError as error:
            self._refused.append(Refused(run_id, error.code, str(error)))
        self._runs.append(run)
        self.matched += 1
        self.last = run_id
        return True

    def result(self, next_after: str | None) -> BulkResult:
        lists = (tuple(self._done), tuple(self._unchanged), tuple(self._refused))
        rest = (next_after, self._stopped, tuple(self._runs))
        return BulkResult(self._action.verb, self._dry_run, self.matched, *lists, *rest)


def _matching(
    runs: Lists, filters: Mapping[str, Any], after: str | None, reason_code: str | None
) -> Iterator[RunRecord]:
    """The runs, a page at a time: what is done to one of them does not move the others' places."""
    while True:
        page = runs(**filters, limit=_PAGE, after=after)
        yield from (run for run in page if reason_code in {None, run.reason})
        after = page.next
        if after is None:
            return
