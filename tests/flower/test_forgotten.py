"""A real Flower that was down, that has room for little, and that has missed an event."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from celery_saga.core.lifecycle import Purpose
from celery_saga.errors import InvalidPayload, RunNotFound
from celery_saga.runtime.assembly import mirror_of, relays_of
from celery_saga.runtime.showing.mirror import Reminder
from celery_saga.runtime.showing.stream import Stream
from tests.announcing.house import House, house_with
from tests.flower.board import Board
from tests.servers import fresh_rabbitmq_vhost
from tests.workers import wait_until

pytestmark = pytest.mark.servers

WORKER = "w1@shop"
ROOM = 50


@pytest.fixture(scope="module")
def down(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Board, dict[str, str]]]:
    """Runs that ended, and one that waits, while Flower was down; then it was started."""
    directory = tmp_path_factory.mktemp("forgotten")
    settings = {"saga_send_events": True, "saga_database_url": f"sqlite:///{directory}/sagas.db"}
    with (
        fresh_rabbitmq_vhost() as vhost,
        house_with(settings["saga_database_url"], broker_url=vhost, saga_send_events=True) as house,
    ):
        house.saga.services.worker_name = WORKER
        cancelled = house.approval.start()
        runs = {
            house.order.start("o1").id: "SUCCESS",
            house.order.start("none").id: "FAILURE",
            house.approval.start().id: "WAITING",
            house.buggy.start().id: "SUSPENDED",
            cancelled.id: "REVOKED",
        }
        cancelled.cancel()
        drain(house)
        environment = {
            "SHOP_SETTINGS": json.dumps({**settings, "broker_url": vhost}),
            "SHOP_LOG": str(directory / "log"),
        }
        with Board("tests.flower.shop", environment, house.app, f"--max-tasks={ROOM}") as board:
            yield house, board, runs


def drain(house: House) -> int:
    """What a sweeper that has just begun tells Flower."""
    (relay,) = [each for each in relays_of(house.saga.services) if each._purpose is Purpose.TASK]
    try:
        count, more = 0, True
        while more:
            more = relay.drain() > 0
            count += more
        return count
    finally:
        relay.close()


Down = tuple[House, Board, dict[str, str]]


def test_a_flower_that_was_down_is_told_again(down: Down) -> None:
    house, board, runs = down
    assert {board.task(run_id) for run_id in runs} == {None}

    done = house.saga.announce(since=3600, worker=WORKER)

    assert (done.runs, done.steps, done.trouble) == (5, 5, "")
    for run_id, state in runs.items():
        board.wait_for_state(run_id, state)
    (failed,) = [run_id for run_id, state in runs.items() if state == "FAILURE"]
    wait_until(lambda: len(board.search(failed)) == 4, what="the steps")
    assert board.workers() == {WORKER}


def test_one_run_can_be_told_and_told_again(down: Down) -> None:
    house, board, _ = down
    run = house.order.start("again")

    for _ in range(2):
        assert house.saga.announce(run.id, worker=WORKER).steps == 2
        board.wait_for_state(run.id, "SUCCESS")
    assert len(board.search(run.id)) == 3


def test_an_end_that_was_lost_is_told_again(down: Down, monkeypatch: pytest.MonkeyPatch) -> None:
    house, board, _ = down
    run = house.approval.start()
    drain(house)
    board.wait_for_state(run.id, "WAITING")
    with monkeypatch.context() as lossy:
        lossy.setattr(Stream, "send", lambda *_: True)
        run.cancel()
        drain(house)
    assert board.state(run.id) == "WAITING"
    store = house.saga.store
    with store.sessions.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE saga_run SET ended_at = strftime('%Y-%m-%dT%H:%M:%f000', 'now', '-30 seconds') WHERE id = ?",
            (run.id,),
        )

    now_s = [0.0]
    mirrors = [mirror_of(house.saga.services) for _ in range(2)]
    reminders = [
        Reminder(store, each, lambda: ["house-approval"], every_s=30.0, monotonic_s=lambda: now_s[0])
        for each in mirrors
    ]
    told = [each.remind() for each in reminders]
    now_s[0] = 31.0
    told += [each.remind() for each in reminders]  # one of them for all

    assert told == [0, 0, 1, 0]
    board.wait_for_state(run.id, "REVOKED")
    for each in reminders:
        each.close()


def test_above_its_room_it_shows_the_newest_whoever_has_told_them(down: Down) -> None:
    house, board, _ = down
    runs = [house.rich.start(number) for number in range(200)]
    drain(house)
    later = [house.rich.start(number) for number in range(60)]
    drain(house)  # of a sweeper that has begun after a restart of its worker

    newest = {run.id for run in later[-ROOM:]}
    wait_until(lambda: set(board.search("")) == newest, what="the newest")
    assert {each["state"] for each in board.search("").values()} == {"SUCCESS"}
    assert board.task(runs[-1].id) is None


def test_what_cannot_be_told_is_refused(down: Down) -> None:
    house, _, runs = down
    with pytest.raises(InvalidPayload):
        house.saga.announce()
    with pytest.raises(InvalidPayload):
        house.saga.announce(next(iter(runs)), since=3600)
    with pytest.raises(InvalidPayload):
        house.saga.announce(since="yesterday")  # type: ignore[arg-type]
    with pytest.raises(RunNotFound):
        house.saga.announce("00000000-0000-0000-0000-000000000000", worker=WORKER)
    assert house.saga.announce(next(iter(runs))).trouble.startswith("no worker answers")


def test_the_run_itself_is_in_the_tables_whatever_flower_has_forgotten(down: Down) -> None:
    house, _, runs = down

    run = house.saga.get(next(iter(runs)))
    assert [str(row.action) for row in run.history()] == ["ok", "ok", "end"]
