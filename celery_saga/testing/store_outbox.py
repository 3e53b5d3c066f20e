"""What a store must keep about its outbox."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from celery_saga.core.lifecycle import EVENTS, Purpose, Wanted
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent
from celery_saga.store import SqlStore
from celery_saga.testing.samples import a_run, new_id
from celery_saga.testing.team import Team

ALL = Wanted(frozenset(EVENTS), results=True)


def _complete(s: Snapshot, now: datetime) -> Snapshot:
    return s.move_run(RunEvent.COMPLETED, ended_at=now)


def _refuse(s: Snapshot, now: datetime) -> Snapshot:
    s = _complete(s, now)
    raise RuntimeError(s.run.id)


# What racers do: functions of this module, so that they travel to other processes.
def take(store: SqlStore, token: str) -> bool:
    """Whether this racer became the relay."""
    return store.outbox.take(Purpose.EVENT, token=token, lease_s=60.0)


def announce(store: SqlStore, run_id: str) -> None:
    """Start and complete a run, both told."""
    store.outbox.wanted = ALL
    store.insert_run(a_run(id=run_id))
    store.transact(run_id, _complete)


class StoreOutbox:
    """Needs the fixtures `store` (migrated, empty) and `team` (racers on it)."""

    def test_what_is_announced_comes_back_as_it_was_written(self, store: SqlStore) -> None:
        run = a_run(key="ké 😀")

        store.outbox.wanted = ALL
        store.insert_run(run)
        done = store.transact(run.id, _complete)

        assert done is not None
        started, completed = store.outbox.next(Purpose.EVENT, limit=10)
        assert (started.event, completed.event) == ("started", "completed")
        assert started.event_id != completed.event_id and started.id < completed.id
        assert completed.at == done.now and started.at == run.created_at
        body = json.loads(completed.body_text)
        assert (body["run_id"], body["key"], body["status"]) == (run.id, run.key, "completed")
        (result,) = store.outbox.next(Purpose.RESULT, limit=10)
        assert (result.purpose, result.run_id, result.event) == (Purpose.RESULT, run.id, "completed")

    def test_nothing_is_announced_of_what_was_not_written(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.outbox.wanted = ALL

        store.insert_run(run)
        store.transact(run.id, lambda s, now: s)
        with pytest.raises(RuntimeError):
            store.transact(run.id, _refuse)

        assert store.outbox.next(Purpose.EVENT, limit=10) == []
        assert not store.outbox.is_waiting(Purpose.EVENT)

    def test_what_was_published_is_deleted_and_the_rest_stays_in_order(self, store: SqlStore) -> None:
        store.outbox.wanted = ALL
        runs = [a_run() for _ in range(5)]
        for run in runs:
            store.insert_run(run)

        first = store.outbox.next(Purpose.EVENT, limit=3)
        store.outbox.delete([each.id for each in first])

        assert [each.run_id for each in first] == [run.id for run in runs[:3]]
        assert [each.run_id for each in store.outbox.next(Purpose.EVENT, limit=9)] == [run.id for run in runs[3:]]
        assert store.outbox.is_waiting(Purpose.EVENT)
        assert not store.outbox.is_waiting(Purpose.RESULT)

    def test_of_racing_relays_one_is_it(self, store: SqlStore, team: Team) -> None:
        answers = team.race([(take, (new_id(),)) for _ in range(team.size)])

        assert sorted(answers) == [False] * (team.size - 1) + [True]

    def test_a_relay_stays_it_until_it_leaves_or_its_lease_ends(self, store: SqlStore) -> None:
        outbox = store.outbox

        assert outbox.take(Purpose.EVENT, token="a", lease_s=60.0)
        assert outbox.take(Purpose.EVENT, token="a", lease_s=60.0)
        assert not outbox.take(Purpose.EVENT, token="b", lease_s=60.0)
        assert outbox.take(Purpose.RESULT, token="b", lease_s=60.0)
        outbox.leave(Purpose.EVENT, token="b")
        assert not outbox.take(Purpose.EVENT, token="b", lease_s=60.0)
        outbox.leave(Purpose.EVENT, token="a")
        assert outbox.take(Purpose.EVENT, token="b", lease_s=-timedelta(seconds=1).total_seconds())
        assert outbox.take(Purpose.EVENT, token="c", lease_s=60.0)

    def test_of_racing_transitions_each_run_is_told_in_order(self, store: SqlStore, team: Team) -> None:
        runs = [new_id() for _ in range(team.size)]

        team.race([(announce, (run,)) for run in runs])

        told: dict[str, list[str]] = {}
        for each in store.outbox.next(Purpose.EVENT, limit=1000):
            told.setdefault(each.run_id, []).append(each.event)
        assert told == {run: ["started", "completed"] for run in runs}
