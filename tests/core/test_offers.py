"""What a worker of an older deploy hands back is offered again: soon while the deploy lasts, never in step."""

from __future__ import annotations

import random

import pytest

from celery_saga.core.wakeup import offered_again_s


def _offers_within(limit_s: float, seed: int) -> int:
    draws = random.Random(seed)
    at_s, offers = 0.0, 0
    while (at_s := at_s + offered_again_s(offers, draws.random())) <= limit_s:
        offers += 1
    return offers


@pytest.mark.parametrize("seed", range(20))
def test_while_a_deploy_lasts_there_are_enough_offers_that_one_meets_the_newer_worker(seed: int) -> None:
    assert _offers_within(180, seed) >= 30  # by turns of a coin, all meet the older one in 1 case of 1e9


@pytest.mark.parametrize("seed", range(20))
def test_what_no_worker_will_ever_take_costs_a_message_a_minute(seed: int) -> None:
    assert _offers_within(24 * 3600, seed) <= 24 * 60 * 1.1 + 40


def test_offers_have_no_rhythm() -> None:
    low, middle, high = (offered_again_s(10, draw) for draw in (0.0, 0.5, 0.99))

    assert (low, middle) == (2.5, 5.0)
    assert high == pytest.approx(7.45)
