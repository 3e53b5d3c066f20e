"""No caller waits for a broker longer than agreed, and no lease is kept longer than it should."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from celery_saga.runtime.line import Line, Ticket
from tests.runtime.places import place_with
from tests.servers import PrivateRabbit


def test_a_job_that_hangs_is_given_up_after_the_time_out() -> None:
    line, released = Line("test"), threading.Event()
    begun_s = time.monotonic()

    answer = line.ask(lambda ticket: _hang(released), "nothing", timeout_s=0.2)
    took_s = time.monotonic() - begun_s
    released.set()

    assert answer == "nothing"
    assert took_s < 1.0


def test_while_a_job_hangs_the_next_is_answered_at_once() -> None:
    line, released = Line("test"), threading.Event()
    line.ask(lambda ticket: _hang(released), None, timeout_s=0.1)
    begun_s = time.monotonic()

    answer = line.ask(_say_yes, "no", timeout_s=5.0)
    took_s = time.monotonic() - begun_s
    released.set()

    assert answer == "no"
    assert took_s < 1.0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("of a router")])
def test_a_job_that_ends_its_thread_leaves_one_for_the_next(error: BaseException) -> None:
    line = Line("test")

    def fail(ticket: Ticket) -> None:
        raise error

    assert line.ask(fail, "nothing", timeout_s=5.0) == "nothing"
    assert line.ask(_say_yes, "no", timeout_s=5.0) == "yes"


def test_when_the_broker_answers_again_so_does_the_line() -> None:
    line, released, done = Line("test"), threading.Event(), threading.Event()

    def hang(ticket: Ticket) -> None:
        _hang(released)
        done.set()

    line.ask(hang, None, timeout_s=0.1)
    released.set()
    assert done.wait(5.0)

    assert _until_yes(line)
    line.close()


def test_an_abandoned_job_knows_it() -> None:
    line, released, seen = Line("test"), threading.Event(), threading.Event()

    def job(ticket: Ticket) -> None:
        _hang(released)
        if ticket.abandoned:
            seen.set()

    line.ask(job, None, timeout_s=0.1)
    released.set()

    assert seen.wait(5.0)


def _hang(released: threading.Event) -> None:
    released.wait(30.0)


def _say_yes(ticket: Ticket) -> None:
    ticket.answer = "yes"


def _until_yes(line: Line) -> bool:
    """The ticket of the job before is marked a moment after the job itself has ended."""
    end_s = time.monotonic() + 5.0
    while time.monotonic() < end_s:
        if line.ask(_say_yes, "no", timeout_s=1.0) == "yes":
            return True
    return False


@pytest.mark.servers
def test_a_start_returns_in_time_while_rabbitmq_holds_publishers_back(tmp_path: Path) -> None:
    with PrivateRabbit() as rabbit, place_with("redis", tmp_path, broker_url=rabbit.url, result_backend=None) as place:
        place.shop.checkout.start("o1", 500)  # connects
        rabbit.ctl("set_vm_memory_high_watermark", "0.000001")
        took_s = [_took_s(lambda: place.shop.checkout.start("o2", 500)) for _ in range(4)]
        rabbit.ctl("set_vm_memory_high_watermark", "0.6")
        with place.worker(concurrency=1):
            runs = list(place.shop.app.saga.runs(saga="checkout"))
            results = [place.shop.checkout.get(run.id).wait(30) for run in runs]

    assert max(took_s) < 3.0, took_s
    assert results == ["ch-500"] * 5


def _took_s(call: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    call()
    return time.monotonic() - begun_s
