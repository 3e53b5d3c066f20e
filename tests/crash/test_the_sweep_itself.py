"""The crash sweep must fail when a guard is taken out: otherwise it proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from celery_saga.core import attempts, compensation, forward, owners, wakeup
from celery_saga.core.due import Due, DueKind
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.engine.ports import Message
from celery_saga.engine.sweeper import Sweeper
from tests.crash.dying import STORIES, DyingHouse, Story, check, outside_transactions, tell
from tests.scenarios.house import Place

Patch = Callable[[pytest.MonkeyPatch], None]


def _without_claim_token(patch: pytest.MonkeyPatch) -> None:
    real = attempts.check_in

    def check_in(s: Snapshot, key: str, token: str, *rest: Any) -> Snapshot:
        return real(s, key, s.steps[key].claim_token or token, *rest)

    patch.setattr(attempts, "check_in", check_in)


def _without_wake_up_at_check_in(patch: pytest.MonkeyPatch) -> None:
    def asleep(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
        return s

    patch.setattr(owners, "wakeup", SimpleNamespace(wake=asleep, scheduled=wakeup.scheduled))


def _without_sending_again(patch: pytest.MonkeyPatch) -> None:
    real = Sweeper._again

    def first_only(self: Sweeper, message: Message, due: Due) -> Message | None:
        row = due.run if due.kind is DueKind.RUN else due.step
        return real(self, message, due) if row is not None and row.sends <= 1 else None

    patch.setattr(Sweeper, "_again", first_only)


def _without_quiesce(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compensation, "_LIVE", (StepStatus.HELD, StepStatus.SCHEDULED))


def _without_wake_up_of_an_ended_child(patch: pytest.MonkeyPatch) -> None:
    def reports(run: RunRecord, now: datetime, resend_s: float) -> dict[str, int | None]:
        return {"wake_at": None, "sends": 0}

    patch.setattr(forward, "reports", reports)
    patch.setattr(compensation, "reports", reports)


def _without_waiting_for_children(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compensation, "is_of_child", lambda step: False)


GUARDS: dict[str, tuple[Patch, str]] = {
    "claim token": (_without_claim_token, "success"),
    "wake-up before a decision": (_without_wake_up_at_check_in, "success"),
    "sending again": (_without_sending_again, "success"),
    "quiesce": (_without_quiesce, "cancel"),
    "wake-up of an ended child": (_without_wake_up_of_an_ended_child, "child"),
    "waiting for children": (_without_waiting_for_children, "child, cancel"),
}


def _sweep(story: Story) -> None:
    """The whole sweep of one story on a database in memory: deaths at every point, and stops between transactions."""
    place = Place("sqlite://")
    with closing(place.store):
        _sweep_on(place, story)


def _sweep_on(place: Place, story: Story) -> None:
    unharmed = DyingHouse(place)
    run_id = tell(unharmed, story)
    reference = ["reserve", "charge", "refund", "release"] if story.cancel_in else ["reserve", "charge", "dispatch"]
    if story.is_child:
        reference = ["pack", *reference, "unpack" if story.cancel_in else "post"]
    check(unharmed, run_id, story, reference)
    for at in range(unharmed.passed):
        _live(DyingHouse(place, at=at), story, reference)
    for stop_at in outside_transactions(unharmed.labels):
        house = DyingHouse(place)
        house.stop_at, house.half_way = stop_at, True
        _live(house, story, reference)


def _live(house: DyingHouse, story: Story, reference: list[str]) -> None:
    check(house, tell(house, story), story, reference)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", sorted(GUARDS))
def test_the_sweep_fails_without(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_out, name = GUARDS[guard]
    take_out(monkeypatch)

    with pytest.raises(AssertionError):
        _sweep(STORIES[name])


@pytest.mark.timeout(300)
def test_the_sweep_passes_with_every_guard() -> None:
    _sweep(STORIES["cancel"])
