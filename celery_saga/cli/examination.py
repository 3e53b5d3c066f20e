"""What `doctor` looks at, and which of it is trouble."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery_saga.cli.session import Session
from celery_saga.cli.tables import counted, duration
from celery_saga.client.documents import readable
from celery_saga.core.records import RunRecord
from celery_saga.core.schedules import FireOutcome, SkipReason
from celery_saga.errors import StoreUnavailable
from celery_saga.runtime.checking import impatient_store
from celery_saga.runtime.guard.bounded import Unasked, ask
from celery_saga.runtime.sweeper import ALIVE_S
from celery_saga.store import migrations
from celery_saga.store.backlog import backlog
from celery_saga.store.lateness import oldest_due
from celery_saga.store.legible import legible

__all__ = ["Report", "examine"]

LATE_S = 60.0
"""A wake-up that is due for so long, in seconds, shows that the sweepers do not keep up."""
_ASK_S = 2.0
_SHOWN = 5
_PAGE = 500


@dataclass(slots=True)
class Report:
    """What was found: lines for people, facts for programs, and the troubles among them."""

    lines: list[tuple[str, str, bool]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def tell(self, title: str, told: str, trouble: str | None = None) -> None:
        """Add a line; with `trouble` it is one."""
        self.lines.append((title, told, trouble is None))
        if trouble is not None:
            self.troubles.append(trouble)

    def document(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {"healthy": not self.troubles, "troubles": self.troubles, **self.facts}


def examine(session: Session) -> Report:
    """Look at everything. Changes nothing; questions over the network are bounded to 2 s each."""
    report = Report()
    _broker(session, report)
    state = _tables(session, report)
    if state not in {None, "absent"}:
        _sweepers(session, report)
        _runs(session, report)
        _legible(session, report)
        _backlog(session, report)
    return report


def _tables(session: Session, report: Report) -> str | None:
    """The state of the tables; None where the database cannot be reached, so that nothing more can be asked."""
    try:
        with impatient_store(session.app) as store:
            state = migrations.schema_state(store)
    except StoreUnavailable as error:
        reason = str(error)
        report.facts["database"] = {"reachable": False, "reason": reason}
        report.tell("database", f"not reachable: {reason}", reason)
        return None
    report.facts["database"] = {"reachable": True, "reason": None}
    report.tell("database", "reachable")
    report.facts["schema"] = state
    is_usable = state in {"current", "newer"}
    remedy = None if is_usable else f"the saga tables are {state}: run `saga migrate`"
    report.tell("tables", state, remedy)
    return state


def _broker(session: Session, report: Report) -> None:
    def connect() -> None:
        with session.app.connection_for_write() as connection:
            # Without pauses between its tries: a refusal is to be told as one.
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=int(_ASK_S))

    answer = ask(connect, timeout_s=_ASK_S)
    reason = answer.reason if isinstance(answer, Unasked) else None
    report.facts["broker"] = {"reachable": reason is None, "reason": reason}
    if reason is None:
        report.tell("broker", "reachable")
    else:
        report.tell("broker", f"not reachable: {reason}", f"the broker cannot be reached: {reason}")


def _sweepers(session: Session, report: Report) -> None:
    rows = session.store.sweepers()
    alive = [row for row in rows if row["silent_s"] < ALIVE_S]
    silent = [row for row in rows if row["silent_s"] >= ALIVE_S]
    workers = _workers(session) if silent else {}
    stale = [(row, name) for row in silent if (name := _still_there(row, workers)) is not None]
    gone = len(silent) - len(stale)
    report.facts["sweepers"] = {
        "alive": [_sweeper(row) for row in alive],
        "stale": [{**_sweeper(row), "worker": name} for row, name in stale],
    }
    told = ", ".join(f"{row['name']} (seen {_seen(row)} ago)" for row in alive[:_SHOWN]) or "none"
    more = f" and {len(alive) - _SHOWN} more" if len(alive) > _SHOWN else ""
    ended = f"; {counted(gone, 'other')} ended without a word, last seen {_last(silent, stale)} ago" if gone else ""
    trouble = None if alive else "no sweeper is alive: start a worker, or `saga sweeper`"
    report.tell("sweepers alive", told + more + ended, trouble)
    for row, name in stale:
        told = f"{name}, last seen {_seen(row)} ago"
        report.tell("sweeper stale", told, f"a sweeper is stale: that of {told}")


def _workers(session: Session) -> dict[int, list[str]]:
    """Names of the workers that answer, by the pid of their main process."""

    def stats() -> Mapping[str, Any]:
        return session.app.control.inspect(timeout=1.0).stats() or {}

    answer = ask(stats, timeout_s=_ASK_S)
    named: dict[int, list[str]] = {}
    if not isinstance(answer, Unasked):
        for name, told in answer.value.items():
            named.setdefault(int(told.get("pid") or 0), []).append(name)
    return named


def _still_there(row: Mapping[str, Any], workers: Mapping[int, list[str]]) -> str | None:
    """The name of the process whose sweeper this is, if it lives; a stopped process lives too."""
    host, pid = str(row["host"]), int(row["pid"])
    for name in workers.get(pid, ()):
        if name.partition("@")[2] == host:
            return f"worker {name} ({row['name']})"
    return f"process {row['name']}" if host == socket.gethostname() and _lives(pid) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    words = Path(f"/proc/{pid}/cmdline")
    # The number may be somebody else's by now; where that cannot be seen it is taken for ours.
    return not words.exists() or any(word in words.read_bytes() for word in (b"celery", b"saga"))


def _seen(row: Mapping[str, Any]) -> str:
    return duration(row["silent_s"])


def _last(silent: list[Mapping[str, Any]], stale: list[tuple[Mapping[str, Any], str]]) -> str:
    """Since when nothing was heard of the latest one that has ended."""
    there = {row["name"] for row, _ in stale}
    return duration(min(row["silent_s"] for row in silent if row["name"] not in there))


def _sweeper(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: readable(row[name]) for name in ("name", "host", "pid", "seen_at", "silent_s", "sagas")}


def _runs(session: Session, report: Report) -> None:
    found = session.saga.doctor()
    stuck: list[RunRecord] = found["without_wake_up"]
    report.facts["without_wake_up"] = [run.id for run in stuck]
    names = ", ".join(run.id for run in stuck[:_SHOWN])
    told = f"{counted(len(stuck), 'live run')} {'has' if len(stuck) == 1 else 'have'} no wake-up: {names}"
    report.tell("wake-ups", told if stuck else "every live run has one", told if stuck else None)
    _oldest(session, report)
    unknown = found["unknown_versions"]
    report.facts["unknown_versions"] = [{"saga": n, "version": v, "live_runs": count} for n, v, count in unknown]
    for name, version, count in unknown:
        told = f"no live worker knows {name} version {version}, which {counted(count, 'live run')}"
        told += f" {'needs' if count == 1 else 'need'}: deploy a worker that has it, or cancel what is left of it"
        report.tell("versions", f"{told} (`saga runs --saga {name} --version {version}`)", told)
    parked = _parked(session)
    report.facts["attention"] = dict(parked)
    if not parked:
        report.tell("for a person", "no run needs a person")
        return
    told = ", ".join(f"{count} {why}" for why, count in sorted(parked.items())) + " (see `saga desk list`)"
    needing = f"{counted(parked.total(), 'run')} {'needs' if parked.total() == 1 else 'need'} a person"
    report.tell("for a person", told, f"{needing}: {told}")


def _legible(session: Session, report: Report) -> None:
    """Whether the codec's present keys read what live runs hold."""
    try:
        found = legible(session.store)
    except StoreUnavailable as error:
        report.facts["unreadable"] = None
        report.tell("payloads", f"not looked at: {error}", f"payloads cannot be read: {error}")
        return
    report.facts["unreadable"] = {"looked": found.looked, "unreadable": found.unreadable}
    if not found.unreadable:
        report.tell("payloads", "what was looked at can be read")
        return
    told = f"of {found.unreadable} of {found.looked} live runs something cannot be read here ({found.why})"
    remedy = "give this process and the workers the keys that it was sealed with (`saga check`: PAYLOADS_UNREADABLE)"
    report.tell("payloads", f"{told}: {remedy}", told)


def _backlog(session: Session, report: Report) -> None:
    found = backlog(session.store)
    report.facts["outbox"] = found.document()["outbox"]
    told = "empty"
    late = None
    if found.oldest_s is not None:
        told = f"{counted(found.announcements, 'announcement')}, the oldest {duration(found.oldest_s)} old"
        late = f"the outbox is not emptied: {told}" if found.oldest_s > LATE_S else None
    report.tell("outbox", told, late)
    _schedules(session, report)


def _schedules(session: Session, report: Report) -> None:
    """Schedules that could not be fired, and those whose last time was skipped."""
    failing, skipped = [], []
    for each in session.store.schedules():
        name = {"saga": each.saga, "schedule": each.id}
        if each.failures:
            failing.append({**name, "failures": each.failures, "error": each.error})
            continue
        for last in session.store.fires(each.saga, each.id, limit=1):
            if last.outcome is FireOutcome.SKIPPED and last.reason in (SkipReason.OVERLAP, SkipReason.MISSED):
                skipped.append({**name, "reason": last.reason.value})
    report.facts["schedules"] = {"failing": failing, "skipped": skipped}
    told = [f"{each['schedule']} of {each['saga']}: {each['error']}" for each in failing[:_SHOWN]]
    trouble = f"{counted(len(failing), 'schedule')} could not be fired: {'; '.join(told)}" if failing else None
    also = f"of {counted(len(skipped), 'schedule')} the last time was skipped" if skipped else ""
    report.tell("schedules", "; ".join(filter(None, (trouble, also))) or "all fire", trouble)


def _oldest(session: Session, report: Report) -> None:
    late = oldest_due(session.store)
    if late is None:
        report.facts["oldest_due"] = None
        report.tell("oldest due", "nothing is due")
        return
    report.facts["oldest_due"] = {"kind": late.kind, "run": late.run_id, "late_s": late.late_s}
    told = f"a {late.kind} of run {late.run_id}, due for {duration(late.late_s)}"
    report.tell("oldest due", told, f"the sweepers do not keep up: {told}" if late.late_s > LATE_S else None)


def _parked(session: Session) -> Counter[str]:
    """How many runs need a person, by status and why, as on the desk."""
    counts: Counter[str] = Counter()
    after: str | None = None
    while True:
        page = session.saga.desk(limit=_PAGE, after=after)
        counts.update(f"{entry.run.status.value} ({entry.why})" for entry in page)
        after = page.next
        if after is None:
            return counts
