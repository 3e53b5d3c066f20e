"""A signal at every moment it can come, over a result backend that forgets everything."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis

from celery_saga import RunHandle, SignalDuplicate, SignalExpired
from tests.faults.crowd import WITH_PHASES, Crowd
from tests.faults.phases import timed, told
from tests.faults.points import Fault
from tests.faults.sagas import GO
from tests.faults.world import World, check, world_with
from tests.servers import PrivateRedis
from tests.workers import wait_until

SENDERS = 10
HELD = [Fault("early", "a", "before_effect", "hold")]
_WAITS = "SELECT status FROM saga_step WHERE run_id = %s AND kind = 'signal' ORDER BY place DESC LIMIT 1"


class Backend:
    """The result backend of the worker: the second database of a private Redis."""

    def __init__(self, server: PrivateRedis) -> None:
        self.url = server.url.removesuffix("/0") + "/1"
        self.flushes = 0

    @contextmanager
    def flushed_all_the_time(self) -> Iterator[None]:
        """Every key that Celery keeps there is deleted, again and again."""
        over = threading.Event()

        def flush() -> None:
            with closing(redis.Redis.from_url(self.url)) as client:
                while not over.wait(0.05):
                    client.flushdb()
                    self.flushes += 1

        thread = threading.Thread(target=flush)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(20)

    def keys(self) -> list[bytes]:
        with closing(redis.Redis.from_url(self.url)) as client:
            return sorted(client.scan_iter())


@pytest.fixture
def backend(private_redis: PrivateRedis) -> Backend:
    return Backend(private_redis)


@pytest.fixture
def world(private_redis: PrivateRedis, backend: Backend, tmp_path: Path) -> Iterator[World]:
    """Results are kept for one second."""
    broker = {"broker_url": private_redis.url, "result_backend": backend.url}
    with world_with("redis", tmp_path, broker_settings=broker, result_expires=1) as found:
        yield found


def _waiting(world: World, run: RunHandle[str]) -> RunHandle[str]:
    world.wait_sql(_WAITS, "waiting", run.id)
    return run


def test_b14_each_wait_takes_one_signal_whenever_it_comes(world: World, backend: Backend) -> None:
    with world.worker(HELD, modules=WITH_PHASES), backend.flushed_all_the_time():
        before = told.find(key="before")
        assert before.signal(GO, "before it was born") == "kept"
        runs = {"before": told.start("before"), "early": told.start("early")}

        world.wait_sql("SELECT status FROM saga_step WHERE run_id = %s", "running", runs["early"].id)
        assert runs["early"].signal(GO, "before the wait") == "kept"
        world.release("early", "a")

        runs["flushed"] = _waiting(world, told.start("flushed"))
        seen = backend.flushes
        wait_until(lambda: backend.flushes > seen + 1, what="a flush while the run waits")
        assert runs["flushed"].signal(GO, "after a flush") == "delivered"

        runs["twice"] = _waiting(world, told.start("twice"))
        assert runs["twice"].signal(GO, "first", id="one id") == "delivered"
        with pytest.raises((SignalDuplicate, SignalExpired)):
            runs["twice"].signal(GO, "second", id="one id")

        assert world.wait_ended(list(runs.values()), 20) == {"completed": 4}
        results = {name: run.wait(1) for name, run in runs.items()}
        assert results == {
            "before": "before it was born",
            "early": "before the wait",
            "flushed": "after a flush",
            "twice": "first",
        }
        with pytest.raises(SignalExpired):
            runs["flushed"].signal(GO, "too late")
        _each_was_taken_once(world, list(runs.values()))
        check(world, list(runs.values()))


def test_b14_an_id_that_comes_again_while_the_first_is_kept_is_told_so(world: World) -> None:
    with world.worker(HELD, modules=WITH_PHASES):
        run = told.start("early")
        world.wait_sql("SELECT status FROM saga_step WHERE run_id = %s", "running", run.id)
        assert run.signal(GO, "first", id="one id") == "kept"
        with pytest.raises(SignalDuplicate):
            run.signal(GO, "second", id="one id")
        world.release("early", "a")

        assert world.wait_ended([run], 20) == {"completed": 1}
        assert run.wait(1) == "first"
        assert world.sql("SELECT signal_id, taken_by FROM saga_signal WHERE run_id = %s", run.id) == [("one id", "go")]
        check(world, [run])


@pytest.mark.parametrize("one_id", [False, True])
def test_b14_of_ten_senders_at_once_one_is_heard(world: World, backend: Backend, one_id: bool) -> None:
    with world.worker(modules=WITH_PHASES), backend.flushed_all_the_time():
        run = _waiting(world, told.start("crowded"))
        with Crowd(world, SENDERS, "signal", run.id, "the same" if one_id else "") as crowd:
            crowd.go()
            crowd.wait(30)
            answers = {line["number"]: line["answer"] for line in crowd.told}

        assert world.wait_ended([run], 20) == {"completed": 1}
        (taken,) = world.sql("SELECT value_text FROM saga_signal WHERE run_id = %s AND taken_by IS NOT NULL", run.id)
        heard = [number for number, answer in answers.items() if answer == "delivered"]
        assert len(answers) == SENDERS, crowd.errors
        assert len(heard) == 1, answers
        assert run.wait(1) == f"word {heard[0]}"
        assert taken == (f'"word {heard[0]}"',)
        losers = {"SIGNAL_DUPLICATE", "SIGNAL_EXPIRED"} if one_id else {"kept", "SIGNAL_EXPIRED"}
        assert set(answers.values()) <= {"delivered", *losers}
        check(world, [run])


def test_b14_a_signal_after_the_time_out_is_refused_and_the_run_goes_on(world: World) -> None:
    with world.worker(modules=WITH_PHASES):
        run = timed.start("late", 0.2)
        world.wait_sql("SELECT task FROM saga_step WHERE run_id = %s AND kind = 'signal' AND status = 'waiting'",
                       "more", run.id)  # fmt: skip
        with pytest.raises(SignalExpired):
            run.signal(GO, "too late")
        assert run.signal("more", "!") == "delivered"

        assert world.wait_ended([run], 20) == {"completed": 1}
        assert run.wait(1) == "nobody!"
        assert world.sql("SELECT name FROM saga_signal WHERE run_id = %s", run.id) == [("more",)]
        check(world, [run])


def test_b14_a_wait_outlives_the_results_of_celery(world: World, backend: Backend) -> None:
    with world.worker(modules=WITH_PHASES):
        run = _waiting(world, told.start("old"))
        assert backend.keys() == []  # nothing of ours is there in the first place
        world.app.send_task("faults.quick", (1,))
        wait_until(lambda: backend.keys() != [], what="a result of an ordinary task")
        wait_until(lambda: backend.keys() == [], what="a result backend that has forgotten it")
        assert run.signal(GO, "still here") == "delivered"

        assert world.wait_ended([run], 20) == {"completed": 1}
        assert run.wait(1) == "still here"
        assert Counter(effect.key for effect in world.effects(run)) == {"a": 1, "b": 1}
        check(world, [run])


def _each_was_taken_once(world: World, runs: list[RunHandle[str]]) -> None:
    rows = world.sql("SELECT run_id, taken_by FROM saga_signal WHERE run_id = ANY(%s)", [run.id for run in runs])
    assert sorted(rows) == sorted((run.id, "go") for run in runs)
