"""Only remote steps need a result backend, and one that the reporting worker can read."""

from __future__ import annotations

import pytest

from tests.guard.world import add_task, findings, make_app
from tests.servers import RedisPlace

REMOTE = {
    "REMOTE_STEPS_WITHOUT_RESULTS",
    "REMOTE_STEPS_IGNORE_RESULTS",
    "REMOTE_STEPS_RPC_RESULTS",
}


def test_without_remote_steps_no_backend_is_needed() -> None:
    assert not REMOTE & findings(make_app()).keys()


def test_remote_steps_without_a_backend_are_an_error() -> None:
    found = findings(make_app(), remote_steps=["depot.pack"])

    assert REMOTE & found.keys() == {"REMOTE_STEPS_WITHOUT_RESULTS"}
    assert "depot.pack" in found["REMOTE_STEPS_WITHOUT_RESULTS"].sentence


def test_remote_steps_with_a_shared_backend_are_fine(redis_place: RedisPlace) -> None:
    app = make_app(**redis_place.settings)
    add_task(app, "depot.pack")

    assert not REMOTE & findings(app, remote_steps=["depot.pack", "depot.unknown.here"]).keys()


@pytest.mark.parametrize("by", ["task", "settings"])
def test_remote_steps_that_ignore_results_are_an_error(redis_place: RedisPlace, by: str) -> None:
    app = make_app(**redis_place.settings, task_ignore_result=by == "settings")
    if by == "task":
        add_task(app, "depot.pack", ignore_result=True)

    assert REMOTE & findings(app, remote_steps=["depot.pack"]).keys() == {"REMOTE_STEPS_IGNORE_RESULTS"}


def test_a_task_that_keeps_its_result_outranks_the_settings(redis_place: RedisPlace) -> None:
    app = make_app(**redis_place.settings, task_ignore_result=True)
    add_task(app, "depot.pack", ignore_result=False)

    assert not REMOTE & findings(app, remote_steps=["depot.pack"]).keys()


def test_remote_steps_with_rpc_results_are_an_error(rabbitmq_url: str) -> None:
    app = make_app(rabbitmq_url, result_backend="rpc://")

    assert REMOTE & findings(app, remote_steps=["depot.pack"]).keys() == {"REMOTE_STEPS_RPC_RESULTS"}


def test_a_backend_that_cannot_be_made_is_told(redis_place: RedisPlace) -> None:
    assert "RESULT_BACKEND_UNUSABLE" in findings(make_app(result_backend="no.such.module:Backend"))
    assert "RESULT_BACKEND_UNUSABLE" not in findings(make_app(**redis_place.settings))
