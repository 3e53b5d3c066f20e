"""What a task sees of the attempt that it runs in, and what a page of a listing is."""

from __future__ import annotations

import contextvars

import pytest

from celery_saga import Page, SagaError, current_step
from celery_saga.client import purity
from celery_saga.client.current import StepContext, enter
from celery_saga.client.waiting import pauses_s
from celery_saga.errors import DefinitionError

CONTEXT = StepContext("run-1", "o1", "charge", 2, "run-1:1:charge")


def test_outside_a_step_it_is_false_and_says_so_when_read() -> None:
    assert not current_step
    with pytest.raises(SagaError, match=r"current_step\.run_id was read outside a step"):
        _ = current_step.run_id


def test_inside_it_shows_the_attempt_and_the_one_before_comes_back() -> None:
    with enter(CONTEXT):
        with enter(StepContext("run-2", None, "ship", 1, "k")):
            assert current_step.run_id == "run-2"
        seen = (current_step.run_id, current_step.run_key, current_step.step, current_step.attempt)
        assert current_step and seen == ("run-1", "o1", "charge", 2)
        assert (current_step.cancelled, current_step.cause, current_step.deadline) == (False, None, None)
    assert not current_step


def test_cancelled_is_asked_anew_each_time() -> None:
    answers = iter([False, True])
    with enter(StepContext("r", None, "s", 1, "k", is_cancelled=lambda: next(answers))):
        assert [current_step.cancelled, current_step.cancelled] == [False, True]


def test_another_context_does_not_see_it() -> None:
    empty = contextvars.copy_context()
    with enter(CONTEXT):
        assert not empty.run(bool, current_step)


def test_a_body_is_left_also_by_an_exception() -> None:
    with pytest.raises(KeyError), purity.body("checkout"):
        with pytest.raises(DefinitionError, match=r"charge\.delay\(\) was called in the body.*Instead: run\.step"):
            purity.forbid("charge.delay()", "run.step(charge.si())")
        raise KeyError
    assert not purity.is_in_body()
    purity.forbid("charge.delay()", "nothing")


def test_a_page_iterates_its_items_and_knows_the_next() -> None:
    page = Page((1, 2), next="2")

    assert (list(page), len(page), page[1], page.next) == ([1, 2], 2, 2, "2")


def test_pauses_grow_from_10_ms_to_500_ms() -> None:
    pauses = pauses_s(None)
    drawn = [next(pauses) for _ in range(20)]

    assert drawn[0] == 0.01
    assert drawn == sorted(drawn)
    assert drawn[-1] == 0.5


def test_no_time_means_no_pause_and_nonsense_is_refused() -> None:
    assert list(pauses_s(0)) == []
    with pytest.raises(DefinitionError):
        pauses_s(-1)
