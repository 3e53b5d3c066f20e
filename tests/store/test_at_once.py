"""Claims and checkpoints that are one statement each, on PostgreSQL: what they write, and what stops them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import text

from celery_saga.core.attempts import may_claim_asynchronously
from celery_saga.core.orders import Call, StepSpec, UndoSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.records import Action, StepKind
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepEvent, StepStatus
from celery_saga.store import SqlStore, open_store
from celery_saga.store.dialects.base import UNPOOLED
from celery_saga.store.ear import Place
from celery_saga.store.ready import DIRECT, Ready
from celery_saga.testing.samples import Adding, a_run, a_signal, a_step

T = TypeVar("T")


def scheduled(store: SqlStore, **changes: Any) -> str:
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id, **changes)))
    return run.id


def claim(store: SqlStore, run_id: str) -> Claimed:
    claimed = store.claim(run_id, 1, "charge", token="t", owner="o", lease_s=9)
    assert claimed is not None
    return claimed


def check_in(s: Snapshot, now: datetime) -> Snapshot:
    over = {"lease_until": None, "wake_at": None, "result_text": "1", "ended_at": now}
    s = s.move_step("charge", StepEvent.SUCCEEDED, **over)
    due = {"wake_at": now + timedelta(seconds=30), "created_at": now}
    return s.with_step(a_step(s.run.id, "dispatch", **due)).note(now, Action.OK, "step", step="charge")


def traced(store: SqlStore, do: Callable[[], T]) -> tuple[T, list[str]]:
    """What it gives, and the labels of its statements."""
    labels: list[str] = []
    store.trace = lambda label: labels.append(label.removeprefix("before:")) if label[0] == "b" else None
    given = do()
    store.trace = None
    return given, labels


def test_what_is_answered_is_what_was_written_at_the_databases_time(store: SqlStore) -> None:
    run_id = scheduled(store)
    before = store.now()
    claimed = claim(store, run_id)
    wrong = claimed.now - timedelta(hours=1)  # what this process takes for the time

    transition, labels = traced(store, lambda: store.transact(run_id, check_in, basis=claimed.snapshot, at=wrong))

    loaded = store.load(run_id)
    assert labels == ["write at once"]
    assert loaded is not None and transition is not None
    assert before <= claimed.now <= transition.now <= loaded.now
    assert loaded.snapshot == Snapshot(transition.new.run, transition.new.steps)
    assert transition.new.steps["dispatch"].wake_at == transition.now + timedelta(seconds=30)
    assert type(transition.new.run.updated_at) is datetime
    assert [row.at for row in store.history(run_id)] == [transition.now]


def test_a_claim_gives_what_is_stored(store: SqlStore) -> None:
    run_id = scheduled(store)
    store.put_signal(a_signal(run_id))

    claimed, labels = traced(store, lambda: claim(store, run_id))

    loaded = store.load(run_id)
    assert labels == ["claim at once", "load signals"]
    assert loaded is not None and claimed.snapshot == loaded.snapshot
    assert (claimed.step.attempt, claimed.step.status, claimed.step.claim_token) == (1, StepStatus.RUNNING, "t")
    assert store.claim(run_id, 1, "charge", token="u", owner="o", lease_s=9) is None


def plainly(store: SqlStore, run_id: str) -> None:
    store.transact(run_id, Adding(a_step(run_id, "pack"), a_step(run_id, "charge")))


def with_signals(store: SqlStore, run_id: str) -> None:
    store.put_signal(a_signal(run_id))
    store.put_signal(a_signal(run_id, signal_id="2"))


def in_its_second_generation(store: SqlStore, run_id: str) -> None:
    store.transact(run_id, Adding(a_step(run_id)))
    store.transact(run_id, lambda s, now: s.with_run(generation=2))
    store.transact(run_id, Adding(a_step(run_id, "pack", generation=2, born=2)))


def folded(store: SqlStore, run_id: str) -> None:
    plainly(store, run_id)
    store.transact(run_id, lambda s, now: s.with_run(folded=True).with_step(replace(s.steps["pack"], folded=True)))


def held_back(store: SqlStore, run_id: str) -> None:
    store.pause_lane("*", by="me", reason="", look_s=9)


@pytest.mark.parametrize("as_it_is", [plainly, with_signals, in_its_second_generation, folded, held_back])
def test_a_load_is_one_statement_and_gives_what_any_way_gives(
    store: SqlStore, as_it_is: Callable[[SqlStore, str], None]
) -> None:
    run_id = a_run().id
    store.insert_run(a_run(id=run_id))
    as_it_is(store, run_id)

    loaded, labels = traced(store, lambda: store.load(run_id))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_quick", None)
        usual = store.load(run_id)

    store.unpause_lane("*", look_s=9)  # the database is of all tests here
    assert labels[0] == "load at once"
    assert labels[1:] == (["load signals"] if as_it_is is with_signals else [])
    assert loaded is not None and usual is not None and loaded.now <= usual.now
    assert (loaded.snapshot, loaded.is_held_back) == (usual.snapshot, usual.is_held_back)
    assert list(loaded.snapshot.steps) == list(usual.snapshot.steps)
    assert usual.is_held_back is (as_it_is is held_back)


def moved(store: SqlStore, run_id: str) -> None:
    store.transact(run_id, lambda s, now: s.note(now, Action.RETRY, "run"))


def signalled(store: SqlStore, run_id: str) -> None:
    store.put_signal(a_signal(run_id))


def over(store: SqlStore, run_id: str) -> None:
    """Its step was taken away, which moves no version where nobody but the step's row is touched."""
    with store.own_sessions.own_engine().begin() as connection:
        connection.execute(text("UPDATE saga_step SET claim_token = 'u' WHERE run_id = :id"), {"id": run_id})


@pytest.mark.parametrize("happens", [moved, signalled, over])
def test_what_has_happened_meanwhile_is_heeded_in_the_usual_way(
    store: SqlStore, happens: Callable[[SqlStore, str], None]
) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    happens(store, run_id)
    seen: list[Snapshot] = []

    def change(s: Snapshot, now: datetime) -> Snapshot:
        seen.append(s)
        step = s.steps["charge"]
        return check_in(s, now) if step.claim_token == "t" else s

    how: dict[str, Any] = {"basis": claimed.snapshot, "at": claimed.now, "is_blind": False}
    _, labels = traced(store, lambda: store.transact(run_id, change, **how))

    assert labels[:3] == ["write at once", "lock run", "load steps"]
    assert len(store.steps(run_id)) == (1 if happens is over else 2)
    assert len(store.history(run_id)) == {moved: 2, signalled: 1, over: 0}[happens]
    assert seen[1] != claimed.snapshot


def test_a_deadline_that_passes_before_the_write_is_not_overlooked(store: SqlStore) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    soon = store.transact(run_id, lambda s, now: s.with_run(deadline_at=now - timedelta(microseconds=1)))
    assert soon is not None
    basis = Snapshot(soon.new.run, soon.new.steps)

    early = claimed.now - timedelta(seconds=5)
    _, labels = traced(store, lambda: store.transact(run_id, check_in, basis=basis, at=early))

    assert labels[:2] == ["write at once", "lock version"]


WITH_UNDO = StepSpec(undo=UndoSpec(Call("shop.refund"))).to_text()
REMOTE = StepSpec(remote=True).to_text()
RECORD = {"kind": StepKind.RECORD, "status": StepStatus.DONE, "result_text": "4", "wake_at": None, "seq": 1}
OTHERS: dict[str, Any] = {
    "as_most_are": {},
    "with_an_undo": {"spec_text": WITH_UNDO},
    "of_a_part": {"key": "ship/pack[3]/label", "scope": "ship/pack[3]/"},
    "counted": {"failures": 2, "stalls": 1, "sends": 3, "maybe": True, "join_total": 4, "join_left": 3, "join_next": 2},
    "done_at_once": RECORD,
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_new_step_is_stored_as_any_way_stores_it(store: SqlStore, other: dict[str, Any]) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    usual = scheduled(store)
    adding = {of: Adding(a_step(of, **{"key": "pack", **other})) for of in (run_id, usual)}

    _, labels = traced(store, lambda: store.transact(run_id, adding[run_id], basis=claimed.snapshot, at=claimed.now))
    store.transact(usual, adding[usual])

    with store.own_sessions.own_engine().begin() as connection:
        asked = "SELECT * FROM saga_step WHERE run_id = :id AND key <> 'charge'"
        rows = [connection.execute(text(asked), {"id": of}).mappings().one() for of in (run_id, usual)]
    of_the_run = {"run_id", "created_at", "wake_at", "place"}
    assert labels == ["write at once"]
    assert [{name: row[name] for name in row if name not in of_the_run} for row in rows[:1]] == [
        {name: row[name] for name in row if name not in of_the_run} for row in rows[1:]
    ]


def begun(s: Snapshot, now: datetime, **changes: Any) -> Snapshot:
    """A step that is inserted already claimed, as an inline one is."""
    mine = {"claim_token": "t", "owner": "o", "attempt": 1, "lease_until": now, "wake_at": now, "started_at": now}
    return s.with_step(a_step(s.run.id, "pack", **{"status": StepStatus.RUNNING, **mine, **changes}))


def ordered(s: Snapshot, now: datetime, **changes: Any) -> Snapshot:
    """Two steps are ordered."""
    return s.with_step(a_step(s.run.id, "pack", **changes)).with_step(a_step(s.run.id, "label", **changes))


@pytest.mark.parametrize(
    ("change", "may_be_lost"),
    [
        (begun, True),
        (lambda s, now: begun(s, now, spec_text=WITH_UNDO), False),
        (lambda s, now: begun(s.with_step(a_step(s.run.id, "note", **RECORD)), now), False),
        (lambda s, now: begun(s.note(now, Action.RETRY, "run"), now), False),
        (lambda s, now: begun(check_in(s, now), now), False),
        (ordered, True),
        (lambda s, now: ordered(s, now, spec_text=WITH_UNDO), True),
        (lambda s, now: ordered(s, now, spec_text=REMOTE), False),
        (lambda s, now: ordered(s.with_step(a_step(s.run.id, "note", **RECORD)), now), False),
        (lambda s, now: check_in(s, now).with_step(a_step(s.run.id, "pack")), False),
        (lambda s, now: ordered(s.with_run(claim_token="a careful one's"), now), False),
    ],
    ids=[
        *("a_claim", "with_an_undo", "beside_a_record", "beside_history", "beside_a_checkpoint"),
        *("orders", "orders_with_an_undo", "remote_ones"),
        *("orders_beside_a_record", "orders_beside_a_checkpoint", "of_a_careful_pass"),
    ],
)
def test_only_orders_and_what_is_nothing_but_a_claim_may_be_lost_with_the_database(
    store: SqlStore, change: Callable[[Snapshot, datetime], Snapshot], may_be_lost: bool
) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    texts: list[str] = []
    run = Ready.run

    def noting(self: Ready, *args: Any) -> Any:
        texts.append(self._text)
        return run(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ready, "run", noting)
        done = store.transact(run_id, change, basis=claimed.snapshot, at=claimed.now)

    assert done is not None and "pack" in done.new.steps
    assert ["synchronous_commit" in each for each in texts] == [may_be_lost]


@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "somebody"])
def test_an_end_says_whether_somebody_listens_for_it(store: SqlStore, listens: bool) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)

    def end(s: Snapshot, now: datetime) -> Snapshot:
        return s.with_run(status=RunStatus.COMPLETED, ended_at=now)

    with store.own_sessions.own_engine().begin() as ear:
        if listens:
            ear.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({Place('').lock})")
        with_step = store.transact(run_id, check_in, basis=claimed.snapshot, at=claimed.now)
        assert with_step is not None
        done, labels = traced(store, lambda: store.transact(run_id, end, basis=with_step.new, at=with_step.now))

    assert done is not None and labels == ["write at once"]
    assert not with_step.is_private
    assert done.is_private is not listens


def rows_of(store: SqlStore, do: Callable[[], T]) -> tuple[T, list[int]]:
    """What it gives, and how many rows each statement of its own has given."""
    counts: list[int] = []
    run = Ready.run

    def counting(self: Ready, *args: Any) -> Any:
        rows = run(self, *args)
        counts.append(len(rows))
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ready, "run", counting)
        return do(), counts


def test_steps_that_this_process_knows_are_not_read_again(store: SqlStore) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    store.transact(run_id, check_in, basis=claimed.snapshot, at=claimed.now)

    found, rows = rows_of(store, lambda: store.claim(run_id, 1, "dispatch", token="v", owner="o", lease_s=9))

    loaded = store.load(run_id)
    assert rows == [1]
    assert found is not None and loaded is not None and found.snapshot == loaded.snapshot


def test_what_others_have_done_to_a_run_is_read(store: SqlStore, url: str) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    store.transact(run_id, check_in, basis=claimed.snapshot, at=claimed.now)
    other = open_store(url)
    other.transact(run_id, Adding(a_step(run_id, "pack")))
    other.close()

    found, rows = rows_of(store, lambda: store.claim(run_id, 1, "dispatch", token="v", owner="o", lease_s=9))

    assert rows == [3]
    assert found is not None and list(found.snapshot.steps) == ["charge", "dispatch", "pack"]


def test_a_run_of_a_restored_database_is_another_one_of_the_same_version(store: SqlStore) -> None:
    run_id = scheduled(store)
    claimed = claim(store, run_id)
    store.transact(run_id, check_in, basis=claimed.snapshot, at=claimed.now)
    with store.own_sessions.own_engine().begin() as connection:
        earlier = "UPDATE saga_run SET updated_at = updated_at - interval '1 second' WHERE id = :id"
        connection.execute(text(earlier), {"id": run_id})
        gone = "DELETE FROM saga_step WHERE run_id = :id AND key = 'charge'"
        connection.execute(text(gone), {"id": run_id})

    found = store.claim(run_id, 1, "dispatch", token="v", owner="o", lease_s=9)

    assert found is not None and list(found.snapshot.steps) == ["dispatch"]


def test_a_connection_that_has_forgotten_its_statements_is_served_all_the_same(store: SqlStore) -> None:
    claim(store, scheduled(store))
    with store.own_sessions.own_engine().begin() as connection:
        connection.exec_driver_sql("DEALLOCATE ALL")

    assert claim(store, scheduled(store)).step.attempt == 1


def test_behind_a_pooler_nothing_is_kept_on_the_server(store: SqlStore) -> None:
    lent = store.own_sessions.own_engine().raw_connection()
    assert lent.info[DIRECT] is True
    lent.info[DIRECT] = False
    lent.close()

    run_id = scheduled(store)
    claimed = claim(store, run_id)
    _, labels = traced(store, lambda: store.transact(run_id, check_in, basis=claimed.snapshot, at=claimed.now))

    with store.own_sessions.own_engine().begin() as connection:
        kept = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
    assert labels == ["write at once"]
    assert kept == 0


def test_connections_that_are_not_pooled_have_nothing_kept(url: str) -> None:
    store = open_store(url, engine_options=UNPOOLED)
    lent = store.own_sessions.own_engine().raw_connection()
    assert lent.info[DIRECT] is False
    lent.close()

    assert claim(store, scheduled(store)).step.attempt == 1
    store.close()


@pytest.mark.parametrize(
    ("step", "level"),
    [
        ({}, "off"),
        ({"spec_text": StepSpec(undo=UndoSpec(Call("shop.refund"))).to_text()}, "on"),
        ({"kind": StepKind.UNDO}, "on"),
    ],
    ids=["without_undo", "with_undo", "undo"],
)
def test_only_a_claim_without_an_undo_may_be_lost_with_the_database(
    store: SqlStore, step: dict[str, Any], level: str
) -> None:
    run_id = scheduled(store, **step)
    quick = store._quick
    assert quick is not None
    values = quick._parts.claim_at_once.binds(run_id, 1, "charge", token="t", owner="o", lease_s=9)

    with store.own_sessions.own_engine().begin() as connection:
        rows = connection.execute(quick._parts.claim_at_once.statement, values).all()
        found = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    assert len(rows) == 1
    assert found == level
    assert may_claim_asynchronously(store.steps(run_id)[0]) is (level == "off")
