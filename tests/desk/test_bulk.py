"""One verb for all runs of a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import InvalidPayload, PayloadTooLarge
from celery_saga.client.bulk import VERBS, bulk, steering
from celery_saga.errors import StoreUnavailable
from celery_saga.testing import Lab
from tests.desk import house
from tests.desk.house import WAYS, app


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(app) as opened:
        yield opened


def _five(lab: Lab) -> list[str]:
    """Ids of five waiting runs, newest first."""
    ids = []
    for number in range(5):
        ids.append(lab.start(house.WAITS, f"k{number}").id)
        lab.advance(1)
    return ids[::-1]


def test_it_goes_on_where_its_limit_has_stopped_it(lab: Lab) -> None:
    ids = _five(lab)

    first = app.saga.bulk("cancel", saga="waits", dry_run=False, limit=3)
    rest = app.saga.bulk("cancel", saga="waits", dry_run=False, limit=3, after=first.next)

    assert (first.matched, first.done) == (3, tuple(ids[:3]))
    assert (rest.matched, rest.done, rest.next) == (2, tuple(ids[3:]), None)


def test_it_stops_when_the_database_is_out_of_reach_and_says_where(lab: Lab) -> None:
    ids = _five(lab)
    action = steering(app.saga.engine, "cancel", compensate=True, reason="", by=None)
    real = action.real
    calls = iter([True, True, False])

    def act(run_id: str) -> bool:
        if not next(calls):
            raise StoreUnavailable("gone")
        return real(run_id)

    flaky = type(action)(action.verb, act, action.dry)
    stopped = bulk(flaky, app.saga._listed, {"saga": "waits"}, dry_run=False, limit=None, after=None)
    rest = app.saga.bulk("cancel", saga="waits", dry_run=False, after=stopped.next)

    assert stopped.stopped is not None
    assert (stopped.stopped.run_id, stopped.stopped.code) == (ids[2], "STORE_UNAVAILABLE")
    assert (stopped.done, rest.done) == (tuple(ids[:2]), tuple(ids[2:]))


def test_without_a_status_it_is_for_those_that_the_verb_is_for(lab: Lab) -> None:
    waiting = _five(lab)
    for way in ("completed", "failed", "parked_body_error", "cancelled"):
        WAYS[way](lab)

    matched = {
        verb: {
            app.saga.get(run_id).status.value for run_id in app.saga.bulk(verb, since=lab.now.replace(year=2000)).done
        }
        for verb in VERBS
        if verb != "signal"
    }

    assert matched == {
        "cancel": {"waiting", "suspended"},
        "suspend": {"waiting"},
        "resume": {"suspended"},
        "compensate": {"suspended"},
        "retry": {"failed", "cancelled"},
    }
    assert {app.saga.get(run_id).status.value for run_id in waiting} == {"waiting"}  # dry runs all


def test_runs_parked_for_one_reason_are_resumed_and_no_others(lab: Lab) -> None:
    bug, by_hand = WAYS["parked_body_error"](lab), WAYS["parked_operator"](lab)

    result = app.saga.bulk("resume", reason_code="body_error", dry_run=False, by="ann", reason="fixed")

    assert result.done == (bug.id,)
    assert by_hand.status == "suspended"
    assert [(row.action.value, row.by, row.reason) for row in bug.history()][-1] == ("resume", "ann", "fixed")


def test_a_signal_with_an_id_reaches_each_run_once_however_often_it_is_sent(lab: Lab) -> None:
    ids = tuple(_five(lab))
    done = lab.get(ids[0])
    done.signal("approval", id="s1")

    dry = app.saga.bulk_signal("approval", id="s1", saga="waits")
    real = app.saga.bulk_signal("approval", id="s1", saga="waits", dry_run=False)
    lab.drain()

    assert (dry.done, dry.unchanged) == (real.done, real.unchanged) == (ids[1:], (ids[0],))
    assert {app.saga.get(run_id).status.value for run_id in ids} == {"completed"}


@pytest.mark.parametrize("id_", ["x" * 300, "", 0, [], "x\0y", "\ud800"])
@pytest.mark.parametrize("name", ["approval"])
def test_a_dry_run_of_a_signal_refuses_what_the_real_call_refuses(lab: Lab, name: str, id_: object) -> None:
    _refused_alike(lab, name, id=id_)


@pytest.mark.parametrize("name", ["x\0y", "\ud800", "!cancel", "x" * 300, ""])
def test_a_dry_run_of_a_signal_refuses_the_names_that_the_real_call_refuses(lab: Lab, name: str) -> None:
    _refused_alike(lab, name)


def test_a_dry_run_of_a_signal_refuses_a_value_that_cannot_be_stored(lab: Lab) -> None:
    _refused_alike(lab, "approval", value=object())
    _refused_alike(lab, "approval", value="x" * 3_000_000)


def _refused_alike(lab: Lab, name: str, **said: Any) -> None:
    run = lab.start(house.WAITS, "one")

    for dry_run in (True, False):
        with pytest.raises((InvalidPayload, PayloadTooLarge)):
            app.saga.bulk_signal(name, saga="waits", dry_run=dry_run, **said)

    assert app.saga.store.signals(run.id) == []


@pytest.mark.parametrize(
    ("verb", "options", "told"),
    [
        ("purge", {"saga": "waits"}, "must be of cancel"),
        ("signal", {"saga": "waits"}, "bulk_signal"),
        ("cancel", {}, "no filter was given"),
        ("cancel", {"attention": False, "saga": None}, "no filter was given"),
        ("cancel", {"sagas": "waits"}, "there is no filter 'sagas'"),
        ("cancel", {"saga": "waits", "limit": 0}, "limit="),
        ("cancel", {"status": "ended"}, "status="),
    ],
)
def test_what_is_no_filter_or_no_verb_is_refused(lab: Lab, verb: str, options: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidPayload, match=told):
        app.saga.bulk(verb, dry_run=False, **options)  # type: ignore[arg-type]
