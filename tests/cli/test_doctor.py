"""What `doctor` takes for trouble, and that it names the culprit."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Text, literal, type_coerce

from celery_saga.core.lifecycle import EVENTS, Wanted
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import FAR_AHEAD, a_run
from tests.cli.program import Program


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    made = open_store(f"sqlite:///{tmp_path / 'saga.db'}")
    migrate(made)
    made.beat("here:1", host="here", pid=1, sagas=[("order", 1), ("fragile", 1)], ttl_s=15)
    yield made
    made.close()


@pytest.fixture
def program(store: SqlStore, tmp_path: Path) -> Program:
    return Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'saga.db'}")


def test_all_is_well_with_a_sweeper_that_ticks(program: Program) -> None:
    found = program.ok("doctor", "--json").document

    assert found["healthy"] is True
    assert found["broker"]["reachable"] is True
    assert [row["name"] for row in found["sweepers"]["alive"]] == ["here:1"]


def test_a_stale_sweeper_of_a_living_process_is_trouble_and_named(program: Program, tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.stdin.read()  # stands for a celery worker"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        name = _beat_a_minute_ago(tmp_path, process.pid)

        done = program("doctor", "--json")
        process.communicate()

    assert done.code == 1
    assert [row["name"] for row in done.document["sweepers"]["stale"]] == [name]
    assert "a sweeper is stale" in done.err and name in done.err


def test_a_sweeper_whose_process_has_ended_is_no_trouble(program: Program, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    _beat_a_minute_ago(tmp_path, process.pid)

    found = program.ok("doctor", "--json").document

    assert found["sweepers"]["stale"] == []


def test_a_live_run_without_a_wake_up_is_trouble_and_named(program: Program, store: SqlStore) -> None:
    run_id = _queued(program, store)
    _change(store, run_id, wake_at=None)

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["without_wake_up"] == [run_id]
    assert f"1 live run has no wake-up: {run_id}" in done.err


def test_a_wake_up_that_nobody_takes_is_trouble_and_named(program: Program, store: SqlStore) -> None:
    run_id = _queued(program, store)
    _change(store, run_id, wake_at=datetime.now(UTC) - timedelta(hours=2))

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["oldest_due"]["run"] == run_id
    assert done.document["oldest_due"]["late_s"] == pytest.approx(7200, abs=60)
    assert "the sweepers do not keep up" in done.err


def test_an_outbox_that_nobody_empties_is_trouble(program: Program, store: SqlStore) -> None:
    assert program("doctor", "--json").document["outbox"] == {"waiting": 0, "oldest_s": None}
    store.outbox.wanted = Wanted(frozenset(EVENTS), results=True)
    store.insert_run(a_run(created_at=datetime.now(UTC) - timedelta(hours=1), wake_at=FAR_AHEAD))

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["outbox"]["waiting"] == 1
    assert done.document["outbox"]["oldest_s"] == pytest.approx(3600, abs=60)
    assert "the outbox is not emptied: 1 announcement" in done.err


def test_a_schedule_that_cannot_be_fired_is_trouble_and_a_skipped_time_is_told(
    program: Program, store: SqlStore
) -> None:
    for name in ("broken", "busy"):
        program.ok("schedules", "add", "fragile", name, "--every", "3600", "--arg", 'name="s"')
    schedule = store.schema.schedule
    fire = store.schema.fire
    at = datetime.now(UTC)
    skipped = {
        "seq": 1,
        "nominal_at": at,
        "until_at": at,
        "count": 1,
        "outcome": "skipped",
        "reason": "overlap",
        "at": at,
    }
    with store.sessions.engine.begin() as connection:
        failed = schedule.update().where(schedule.c.id == "broken").values(failures=3, error="LookupError: x")
        connection.execute(failed)
        connection.execute(fire.insert().values(saga="fragile", schedule="busy", **skipped))

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["schedules"] == {
        "failing": [{"saga": "fragile", "schedule": "broken", "failures": 3, "error": "LookupError: x"}],
        "skipped": [{"saga": "fragile", "schedule": "busy", "reason": "overlap"}],
    }
    assert "1 schedule could not be fired: broken of fragile: LookupError: x" in done.err


def test_payloads_that_cannot_be_read_here_are_trouble(program: Program, store: SqlStore) -> None:
    run_id = _queued(program, store)
    assert program("doctor", "--json").document["unreadable"] == {"looked": 1, "unreadable": 0}
    run = store.schema.run
    with store.sessions.engine.begin() as connection:
        sealed = type_coerce(literal("!s1:sealed elsewhere"), Text)
        connection.execute(run.update().where(run.c.id == run_id).values(input_digest=sealed))

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["unreadable"] == {"looked": 1, "unreadable": 1}
    assert "PAYLOADS_UNREADABLE" in program("doctor").out


def test_live_runs_of_a_version_that_nobody_knows_are_trouble(program: Program, store: SqlStore) -> None:
    run_id = _queued(program, store)
    _change(store, run_id, version=7)

    done = program("doctor")

    assert done.code == 1
    assert "no live worker knows order version 7, which 1 live run needs: deploy a worker that has it" in done.err


def test_what_only_the_operators_process_knows_is_not_known(program: Program, store: SqlStore) -> None:
    _queued(program, store)
    store.beat("here:1", host="here", pid=1, sagas=[("fragile", 1)], ttl_s=15)

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["unknown_versions"] == [{"saga": "order", "version": 1, "live_runs": 1}]


def test_what_only_a_silent_sweeper_knew_is_not_known(program: Program, store: SqlStore, tmp_path: Path) -> None:
    run_id = _queued(program, store)
    _change(store, run_id, version=7)
    _beat_a_minute_ago(tmp_path, 1, sagas=[("order", 7)])

    assert "order version 7" in program("doctor").err


def test_without_a_live_sweeper_that_alone_is_told_of_what_this_process_knows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'saga.db'}"
    store = open_store(url)
    migrate(store)
    program = Program("celery-saga", "tests.cli.project", url)
    _queued(program, store)
    store.close()

    done = program("doctor", "--json")

    assert done.document["unknown_versions"] == []
    assert done.document["troubles"][0].startswith("no sweeper is alive")


def test_each_sweeper_is_told_with_when_it_was_seen(program: Program, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    _beat_a_minute_ago(tmp_path, gone.pid)

    told = " ".join(program.ok("doctor").out.split())

    assert re.search(r"here:1 \(seen \S+ m?s ago\); 1 other ended without a word, last seen 6\d\.\d s ago", told)


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:////no/such/folder/saga.db"])
def test_a_database_that_is_down_is_one_line_and_the_rest_is_told(url: str) -> None:
    done = Program("celery-saga", "tests.cli.project", url)("doctor", "--json")
    told = Program("celery-saga", "tests.cli.project", url)("doctor").out

    assert done.code == 1
    assert done.document["database"]["reachable"] is False
    assert done.document["broker"]["reachable"] is True
    assert done.err.startswith("UNHEALTHY: the saga database ") and done.err.count("\n") == 1
    assert [line.split()[:2] for line in told.splitlines()] == [["ok", "broker"], ["TROUBLE", "database"]]


def test_runs_that_need_a_person_are_trouble_and_counted_as_on_the_desk(tmp_path: Path, program: Program) -> None:
    (tmp_path / "bug").touch()
    buggy = replace(program, switches=tmp_path)
    for name in "ab":
        buggy.ok("start", "fragile", "--arg", f'name="{name}"')

    (tmp_path / "stuck").touch()
    buggy.ok("start", "clumsy", "--arg", 'name="x"')

    done, told = program("doctor", "--json"), program("doctor").out

    assert (done.code, done.document["healthy"]) == (1, False)
    assert done.document["attention"] == {"compensation_failed (undo_failed)": 1, "suspended (body_error)": 2}
    assert done.err.startswith("UNHEALTHY: 3 runs need a person: 1 compensation_failed (undo_failed), 2 suspended")
    assert "`saga desk list`" in " ".join(told.split())
    assert len(program.ok("desk", "list", "--json").lines) == 3


def test_an_undo_that_keeps_failing_needs_a_person_too(program: Program, store: SqlStore) -> None:
    _change(store, _queued(program, store), status=RunStatus.COMPENSATING, attention_at=datetime.now(UTC))

    assert program("doctor", "--json").document["attention"] == {"compensating (undo_failing)": 1}


def test_a_broker_that_is_down_is_trouble(store: SqlStore, tmp_path: Path) -> None:
    program = Program("celery-saga", "tests.cli.no_broker", f"sqlite:///{tmp_path / 'saga.db'}")

    done = program("doctor", "--json")

    assert done.code == 1
    assert done.document["broker"]["reachable"] is False
    assert "the broker cannot be reached" in done.err
    assert "refused" in done.err


def test_missing_tables_are_trouble_with_the_remedy(tmp_path: Path) -> None:
    done = Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'none.db'}")("doctor")

    assert done.code == 1
    assert "`saga migrate`" in done.err


def _queued(program: Program, store: SqlStore) -> str:
    """The id of a live run that has nothing to wait for."""
    run_id: str = program.ok("start", "order", "--arg", 'line={"sku": "a1"}', "--json").document["id"]
    _change(store, run_id)
    return run_id


def _change(store: SqlStore, run_id: str, **fields: object) -> None:
    def changed(s: Snapshot, now: datetime) -> Snapshot:
        del now
        ended = {key: replace(step, status=StepStatus.CANCELLED) for key, step in s.steps.items()}
        return replace(s, run=replace(s.run, **fields), steps=ended)  # type: ignore[arg-type]

    store.transact(run_id, changed)


def _beat_a_minute_ago(tmp_path: Path, pid: int, sagas: Sequence[tuple[str, int]] = ()) -> str:
    host = socket.gethostname()
    past = open_store(f"sqlite:///{tmp_path / 'saga.db'}", clock=lambda: datetime.now(UTC) - timedelta(minutes=1))
    past.beat(f"{host}:{pid}", host=host, pid=pid, sagas=sagas, ttl_s=15)
    past.close()
    return f"{host}:{pid}"
