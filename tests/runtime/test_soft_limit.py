"""The soft time limit's OS signal and what it must not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from celery_saga.runtime.daemon import soft_limit_held, start_daemon


@pytest.fixture(autouse=True)
def _as_in_a_pool_child() -> Iterator[None]:
    def over(number: int, frame: FrameType | None) -> None:
        raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGUSR1, over)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_limit_that_comes_during_a_checkpoint_is_dropped() -> None:
    done = []

    with soft_limit_held():
        signal.raise_signal(signal.SIGUSR1)
        done.append("checkpoint")
    done.append("after")

    assert done == ["checkpoint", "after"]
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_afterwards_a_limit_is_raised_again() -> None:
    with soft_limit_held():
        pass

    with pytest.raises(SoftTimeLimitExceeded):
        signal.raise_signal(signal.SIGUSR1)


def test_our_threads_do_not_take_the_signal_away_from_the_main_thread() -> None:
    masks: list[set[signal.Signals]] = []
    done = threading.Event()

    def look() -> None:
        masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, set())))  # type: ignore[arg-type]
        done.set()

    start_daemon(look, "looker")

    assert done.wait(5)
    assert signal.SIGUSR1 in masks[0]
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
