"""Purges as an operator asks for them, and what is left of a run afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_saga import IdempotencyConflict, InvalidPayload, ResultPurged, RunExists, RunNotFound, SignalExpired
from celery_saga.runtime.app import CelerySaga
from celery_saga.testing import Lab
from tests.retention import shop
from tests.retention.shop import fails, kept, parent, parks, plain, stays, waits

DAY_S = 86_400.0


@pytest.fixture
def operator(lab: Lab) -> CelerySaga:
    return CelerySaga.of(shop.app)


def numbers(done: dict[str, Any]) -> tuple[int, int, int]:
    return done["matched"], done["deleted"], done["active_protected"]


@pytest.mark.parametrize("keep_keys", [True, False])
def test_a26_purge_rules(lab: Lab, operator: CelerySaga, keep_keys: bool) -> None:
    old = [lab.start(kept, "o1"), lab.start(plain, "o2"), lab.start(fails, "o3")]
    active = [lab.start(waits, "o4"), lab.start(waits, "o5")]
    lab.drain()
    active[0].signal("other", 1)
    lab.advance(30 * DAY_S)
    recent = lab.start(kept, "o6")
    lab.drain()
    assert [run.status.value for run in (*old, *active, recent)] == [
        *("completed", "completed", "failed", "waiting", "waiting", "completed")
    ]
    asked: dict[str, Any] = {"older_than": 7 * DAY_S, "keep_keys": keep_keys}

    assert numbers(operator.purge(**asked, dry_run=True)) == (3, 0, 2)
    assert len(operator.runs()) == 6
    assert numbers(operator.purge(**asked)) == (3, 3, 2)
    assert numbers(operator.purge(**asked)) == (0, 0, 2)

    assert {run.id for run in operator.runs()} == {run.id for run in (*active, recent)}
    for run in old:
        assert not operator.store.history(run.id) and not operator.store.signals(run.id)
        assert not operator.store.steps(run.id, all_generations=True)
    assert recent.result is not None and active[0].history()


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    "older_than", [0, -1, timedelta(0), float("nan"), float("inf"), NAIVE, "30d", None, True, 1e300], ids=repr
)
def test_a26_a_cut_off_that_does_not_lie_before_now_is_refused(operator: CelerySaga, older_than: Any) -> None:
    with pytest.raises(InvalidPayload, match="nothing was purged") as caught:
        operator.purge(older_than=older_than)

    assert (caught.value.code, caught.value.path) == ("INVALID_ARGUMENT", "older_than")


def test_a_cut_off_may_be_an_instant_up_to_now(lab: Lab, operator: CelerySaga) -> None:
    lab.start(plain, "o1")
    lab.drain()
    lab.advance(1)

    with pytest.raises(InvalidPayload):
        operator.purge(older_than=lab.now)
    assert operator.purge(older_than=lab.now - timedelta(microseconds=1))["deleted"] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"status": "waiting"},
        {"status": ["completed", "compensation_failed"]},
        {"status": "suspended"},
        {"status": []},
        {"saga": 5},
        {"batch": 0},
        {"batch": True},
        {"keep_latest_per_saga": -1},
    ],
    ids=repr,
)
def test_what_is_never_purged_cannot_be_asked_for(operator: CelerySaga, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload, match="nothing was purged") as caught:
        operator.purge(older_than=1, **options)

    assert caught.value.path == next(iter(options))


def test_what_waits_for_a_person_stays_however_old_it_is(lab: Lab, operator: CelerySaga) -> None:
    runs = [lab.start(stays, "o1"), lab.start(parks, "o2")]
    lab.drain()
    lab.advance(9000 * DAY_S)

    done = operator.purge(older_than=1)

    assert [run.status.value for run in runs] == ["compensation_failed", "suspended"]
    assert (done["matched"], done["active_protected"], done["unresolved_protected"]) == (0, 1, 1)
    assert operator.purge(older_than=1, status="failed")["active_protected"] == 0


def test_parents_and_children_go_together(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(parent, "o1", 2)
    lab.drain()
    lab.advance(DAY_S)
    assert len(operator.runs()) == 7

    assert numbers(operator.purge(older_than=1, batch=1)) == (7, 7, 0)

    assert len(operator.runs()) == len(operator.runs(purged=True)) == 0
    with pytest.raises(ResultPurged):
        run.refresh()


# -- what is left ---------------------------------------------------------------------------------------------------
@pytest.fixture
def purged(lab: Lab, operator: CelerySaga) -> Any:
    """A handle of a run whose key alone is kept."""
    lab.start(kept, "o1")
    lab.drain()
    lab.advance(DAY_S)
    operator.purge(older_than=1)
    return kept.start("o1")


def test_the_same_start_gives_the_run_whose_result_is_purged(lab: Lab, purged: Any) -> None:
    assert purged.created is False
    assert (purged.status.value, purged.ready(), purged.state) == ("completed", True, "SUCCESS")
    for read in ("wait", "get", "steps", "history", "export"):
        with pytest.raises(ResultPurged):
            getattr(purged, read)()
    for read in ("result", "error", "waiting_on", "progress"):
        with pytest.raises(ResultPurged):
            getattr(purged, read)
    with pytest.raises(ResultPurged):
        list(purged.events())
    lab.drain()
    assert lab.calls[1:] == []


def test_another_input_under_its_key_is_refused_still(purged: Any) -> None:
    changed = kept.options(key="o1")

    with pytest.raises(IdempotencyConflict):
        changed.start("o2")
    with pytest.raises(RunExists):
        kept.options(if_exists="raise").start("o1")


def test_it_cannot_be_started_over(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(fails, "o1")
    lab.drain()
    lab.advance(DAY_S)
    operator.purge(older_than=1)
    calls = len(lab.calls)

    with pytest.raises(ResultPurged, match="only its key"):
        fails.options(if_exists="restart_failed").start("o1")

    lab.drain()
    assert len(lab.calls) == calls
    assert run.refresh().status.value == "failed"


VERBS: dict[str, Callable[[Any], object]] = {
    "cancel": lambda run: run.cancel(),
    "suspend": lambda run: run.suspend(),
    "resume": lambda run: run.resume(),
    "compensate": lambda run: run.compensate(),
    "retry": lambda run: run.retry(),
    "skip": lambda run: run.skip("book"),
    "retry_undo": lambda run: run.retry_undo("book"),
    "resolve_undo": lambda run: run.resolve_undo("book"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_works_on_it(operator: CelerySaga, purged: Any, verb: str) -> None:
    before = operator.store.load(purged.id)

    with pytest.raises(ResultPurged, match="Nothing was changed"):
        VERBS[verb](purged)

    after = operator.store.load(purged.id)
    assert before is not None and after is not None
    assert (after.snapshot.run, operator.store.history(purged.id)) == (before.snapshot.run, [])


def test_a_signal_to_it_comes_too_late(operator: CelerySaga, purged: Any) -> None:
    with pytest.raises(SignalExpired):
        purged.signal("go", 1)

    assert operator.store.signals(purged.id) == []


def test_asked_for_by_its_id_it_is_purged_and_one_without_key_is_not_there(lab: Lab, operator: CelerySaga) -> None:
    runs = [lab.start(kept, "o1"), lab.start(plain, "o1")]
    lab.drain()
    lab.advance(DAY_S)
    operator.purge(older_than=1)

    with pytest.raises(ResultPurged):
        operator.get(runs[0].id)
    with pytest.raises(ResultPurged):
        operator.export(runs[0].id)
    with pytest.raises(RunNotFound):
        operator.get(runs[1].id)
    assert operator.export(runs[1].id) is None
    assert [run.id for run in operator.runs(purged=True)] == [runs[0].id]


def test_once_keys_go_too_the_same_start_runs_again(lab: Lab, operator: CelerySaga, purged: Any) -> None:
    lab.advance(DAY_S)

    assert numbers(operator.purge(older_than=1, keep_keys=False)) == (1, 1, 0)

    again = lab.start(kept, "o1")
    assert again.created is True
    lab.drain()
    assert again.status.value == "completed"


def test_pages_of_the_api_go_on_where_the_last_run_was_purged(lab: Lab, operator: CelerySaga) -> None:
    for number in range(4):
        lab.start(plain if number < 2 else waits, f"o{number}")
        lab.drain()
        lab.advance(1)
    order = [run.id for run in operator.runs()]
    lab.advance(DAY_S)
    first = operator.runs(limit=3)

    operator.purge(older_than=1)

    assert first.next is not None and [run.id for run in first] == order[:3]
    assert [run.id for run in operator.runs(limit=3, after=first.next)] == []
    with pytest.raises(InvalidPayload):
        operator.runs(after=order[2])
    assert operator.runs(since=datetime(2100, 1, 1, tzinfo=UTC)).next is None


def test_nothing_is_hung_on_the_signals_of_what_was_purged(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(kept, "o9")
    lab.drain()
    lab.advance(DAY_S)
    assert operator.purge(older_than=1)["deleted"] == 1

    with pytest.raises(ResultPurged, match="Nothing was changed"):
        operator.chord(run.id, ["x"])(shop.book.si("x"))
    assert not operator.store.steps(run.id, all_generations=True)
