"""A lane that was mistyped is forgotten; one that a run uses, or that something names, is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from celery import Celery

from celery_saga import CelerySaga, Lane, Run, saga
from celery_saga.errors import IllegalTransition


@saga(name="forgetting.waits", lane="tenant:{tenant}")
def waits(run: Run, tenant: str) -> None:
    run.wait_signal("go")


@saga(name="forgetting.named", lane=Lane("forgetting", cap=2))
def named(run: Run) -> None:
    """Its lane is named by code."""


@pytest.fixture
def extension() -> Iterator[CelerySaga]:
    app = Celery("forgetting", set_as_current=False)
    app.conf.update(task_always_eager=True, broker_url="memory://")
    extension = CelerySaga(app, database_url="sqlite://", sagas=[waits, named], lanes={"said": {"cap": 3}})
    extension.migrate()
    yield extension
    extension.services.store.close()


def _names(extension: CelerySaga) -> list[str]:
    return [lane.name for lane in extension.lanes()]


def test_a_mistyped_lane_is_forgotten_with_what_was_said_of_it(
    extension: CelerySaga, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "celery_saga.run")
    extension.set_lane("sad", cap=9)
    extension.pause(lane="sad", reason="typo")

    assert extension.forget_lane("sad", by="ann", reason="mistyped") is True
    assert extension.forget_lane("sad") is False

    assert "sad" not in _names(extension)
    assert [each.getMessage() for each in caplog.records if "forgotten" in each.getMessage()] == [
        "lane:sad was forgotten by ann: mistyped"
    ]


def test_a_lane_to_which_a_live_run_comes_back_is_kept(extension: CelerySaga) -> None:
    run = waits.start_at(extension, "A")
    [before] = [lane for lane in extension.lanes() if lane.name == "tenant:A"]
    assert (before.held, before.queued) == (0, 0)

    with pytest.raises(IllegalTransition, match="in use: 0 hold a slot, 0 queue, and 1 live runs"):
        extension.forget_lane("tenant:A")
    assert "tenant:A" in _names(extension)

    run.signal("go")
    assert extension.forget_lane("tenant:A") is True
    assert "tenant:A" not in _names(extension)


@pytest.mark.parametrize("lane", ["forgetting", "said"])
def test_what_code_or_settings_name_is_kept(extension: CelerySaga, lane: str) -> None:
    extension.lanes()

    with pytest.raises(IllegalTransition, match="named by code or by saga_lanes"):
        extension.forget_lane(lane)

    assert lane in _names(extension)
