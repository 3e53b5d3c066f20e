"""What is told of the user's tasks, and what is not."""

from __future__ import annotations

from typing import Any

import celery
import pytest
from celery.app.task import Task

from tests.guard.world import add_task, findings, make_app

ACKS = {"TASK_REJECT_WITHOUT_LIMIT", "TASK_LOST_WITH_ITS_PROCESS", "TASK_REJECT_WITHOUT_ACKS_LATE"}


class TenantTask(Task):  # type: ignore[type-arg]
    """A base class that puts the tenant on each message."""

    abstract = True

    def apply_async(self, *args: Any, **options: Any) -> Any:
        options["headers"] = {"tenant": "acme"}
        return super().apply_async(*args, **options)


class QuietTask(Task):  # type: ignore[type-arg]
    """A base class that changes nothing about sending."""

    abstract = True


def test_a_task_whose_apply_async_is_overridden_is_told() -> None:
    app = make_app()
    add_task(app, "shop.charge", base=TenantTask)
    add_task(app, "shop.mail", base=QuietTask)

    sentence = findings(app)["TASK_APPLY_ASYNC_OVERRIDDEN"].sentence

    assert "shop.charge" in sentence
    assert "shop.mail" not in sentence
    assert "captured" in sentence


def test_an_override_of_the_whole_app_is_told() -> None:
    app: Any = celery.Celery("checked", broker="memory://", task_cls=TenantTask, set_as_current=False)
    add_task(app, "shop.charge")

    assert "TASK_APPLY_ASYNC_OVERRIDDEN" in findings(app)


def test_an_override_of_one_task_object_is_told() -> None:
    app = make_app()
    task = add_task(app, "shop.charge")
    app.finalize()
    real: Any = app.tasks["shop.charge"]
    assert "TASK_APPLY_ASYNC_OVERRIDDEN" not in findings(app)

    real.apply_async = task.delay

    assert "TASK_APPLY_ASYNC_OVERRIDDEN" in findings(app)


@pytest.mark.parametrize(
    ("late", "rejects", "codes"),
    [
        (True, True, {"TASK_REJECT_WITHOUT_LIMIT"}),
        (True, False, {"TASK_LOST_WITH_ITS_PROCESS"}),
        (False, True, {"TASK_REJECT_WITHOUT_ACKS_LATE"}),
        (False, False, set()),
    ],
)
@pytest.mark.parametrize("by", ["task", "settings"])
def test_each_combination_of_acks_has_its_code(late: bool, rejects: bool, codes: set[str], by: str) -> None:
    if by == "task":
        app = make_app()
        add_task(app, "shop.charge", acks_late=late, reject_on_worker_lost=rejects)
    else:
        app = make_app(task_acks_late=late, task_reject_on_worker_lost=rejects)
        add_task(app, "shop.charge")

    assert ACKS & findings(app).keys() == codes


def test_a_lost_process_that_counts_as_a_retry_has_a_limit() -> None:
    app = make_app(task_acks_late=True, task_reject_on_worker_lost=True, task_retry_on_worker_lost=True)
    add_task(app, "shop.charge")

    assert not ACKS & findings(app).keys()


@pytest.mark.parametrize(("hard", "soft", "told"), [(10, 20, True), (20, 20, True), (30, 20, False), (None, 20, False)])
def test_a_hard_limit_that_is_not_above_the_soft_one_is_told(hard: int | None, soft: int, told: bool) -> None:
    app = make_app()
    add_task(app, "shop.charge", time_limit=hard, soft_time_limit=soft)
    by_settings = make_app(task_time_limit=hard, task_soft_time_limit=soft)
    add_task(by_settings, "shop.charge")

    for one in (app, by_settings):
        assert ("TASK_LIMITS_REVERSED" in findings(one)) is told


@pytest.mark.parametrize(("name", "told"), [("é" * 127 + "a", False), ("é" * 128, True)])
def test_a_name_above_255_bytes_is_an_error(name: str, told: bool) -> None:
    app = make_app()
    add_task(app, name)

    assert ("TASK_NAME_TOO_LONG" in findings(app)) is told


def test_celerys_own_tasks_and_ours_are_not_looked_at() -> None:
    # Written in one of our modules, and carrying the name of the user's, as a saga's task is.
    namespace: dict[str, Any] = {"__name__": "celery_saga.runtime.written_for_a_test"}
    exec("def start(): pass", namespace)
    start = namespace["start"]
    start.__module__ = "shop.sagas"
    app = make_app(task_acks_late=True)
    app.task(name="saga.checkout", base=TenantTask, shared=False)(start)
    add_task(app, "celery_saga.step", base=TenantTask)

    assert not (ACKS | {"TASK_APPLY_ASYNC_OVERRIDDEN"}) & findings(app).keys()


def test_a_users_module_called_saga_is_looked_at() -> None:
    app = make_app()
    add_task(app, "saga.charge", base=TenantTask)

    assert "TASK_APPLY_ASYNC_OVERRIDDEN" in findings(app)


def test_long_lists_of_tasks_are_cut() -> None:
    app = make_app(task_acks_late=True)
    for number in range(9):
        add_task(app, f"shop.t{number}")

    assert "shop.t4 and 4 more" in findings(app)["TASK_LOST_WITH_ITS_PROCESS"].sentence
