"""Which steps a worker takes inline: what the word says, and what stands against it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga
from celery_saga.core.orders import RunSpec, StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.status import RunStatus
from celery_saga.runtime.inline_choice import InlineChoice
from celery_saga.runtime.services import services_of
from celery_saga.runtime.step_task import install

_numbers = itertools.count()


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[Any]:
    """Makes an app with settings, and its choice."""
    made: list[Celery] = []

    def make(**settings: Any) -> tuple[Celery, InlineChoice]:
        app = Celery(f"chosen{next(_numbers)}", set_as_current=False)
        made.append(app)
        app.conf.update(saga_database_url=f"sqlite:///{tmp_path}/saga.db", broker_url="memory://", **settings)
        CelerySaga(app)
        for name, options in TASKS.items():
            app.task(name=f"chosen.{name}", shared=False, **options)(nothing)
        app.finalize()
        install(app)
        choice = services_of(app).takes_inline
        assert isinstance(choice, InlineChoice)
        return app, choice

    yield make
    for app in made:
        services_of(app).close()
        app.close()


def nothing() -> None:
    """What each of the tasks does."""


TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limited": {"time_limit": 5},
    "softly": {"soft_time_limit": 5},
    "rated": {"rate_limit": "5/s"},
}


def takes(choice: InlineChoice, task: str = "plain", *, word: str | None = "inline", **spec: Any) -> bool:
    step_spec = StepSpec(**spec)
    order = Order(StepKind.STEP, "k", "", 0, task=f"chosen.{task}", spec_text=step_spec.to_text())
    return choice(_run(word), order)


def _run(word: str | None, queue: str | None = None) -> RunRecord:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    spec_text = RunSpec(dispatch=word).to_text()
    return RunRecord("r", "s", 1, None, RunStatus.RUNNING, at, at, spec_text=spec_text, queue=queue)


def test_the_nearest_word_counts(apps: Any) -> None:
    _, plain = apps()
    _, inline = apps(saga_dispatch="inline")

    assert takes(plain, word="inline")
    assert takes(plain, word="auto")
    assert not takes(plain, word="broker")
    assert not takes(plain, word=None)
    assert takes(plain, word=None, dispatch="inline")
    assert not takes(plain, word="inline", dispatch="broker")
    assert takes(inline, word=None)
    assert not takes(inline, word="broker")


@pytest.mark.parametrize("task", ["limited", "softly", "rated", "unknown"])
def test_a_task_with_limits_or_that_is_not_here_is_sent(apps: Any, task: str) -> None:
    _, choice = apps()

    assert not takes(choice, task)


@pytest.mark.parametrize(
    "spec",
    [
        {"remote": True, "timeout_s": 5.0},
        {"timeout_s": 5.0},
        {"transactional": True},
        {"options": {"time_limit": 5}},
        {"options": {"soft_time_limit": 5}},
        {"options": {"queue": "elsewhere"}},
        {"options": {"routing_key": "elsewhere"}},
    ],
)
def test_a_step_with_limits_or_a_queue_of_its_own_is_sent(apps: Any, spec: dict[str, Any]) -> None:
    _, choice = apps()

    assert not takes(choice, **spec)


def test_priority_and_headers_do_not_matter(apps: Any) -> None:
    _, choice = apps()

    assert takes(choice, options={"priority": 3, "headers": {"tenant": "t"}})


def test_nothing_is_inline_where_every_step_has_a_time_out(apps: Any) -> None:
    _, choice = apps(saga_step_timeout=5.0)

    assert not takes(choice)


def test_a_step_follows_its_run_to_another_queue_by_the_apps_routes(apps: Any) -> None:
    _, apart = apps(saga_queue="sagas")
    _, together = apps(saga_queue="sagas", task_routes={"chosen.*": {"queue": "sagas"}})
    _, routed = apps(task_routes={"chosen.plain": {"queue": "elsewhere"}})

    assert not takes(apart)
    assert takes(together)
    assert not takes(routed)


def test_a_router_that_looks_at_arguments_is_asked_each_time(apps: Any) -> None:
    asked: list[Any] = []

    def by_argument(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **_: Any) -> Any:
        asked.append(args)
        return {"queue": "elsewhere"} if args == ("far",) else None

    _, choice = apps(task_routes=[by_argument])
    near = Order(StepKind.STEP, "k", "", 0, task="chosen.plain", args_text='[["near"], {}]')
    far = Order(StepKind.STEP, "k", "", 0, task="chosen.plain", args_text='[["far"], {}]')

    assert [choice(_run("inline"), order) for order in (near, far, near)] == [True, False, True]
    assert [args for args in asked if args] == [("near",), ("far",), ("near",)]


def test_auto_sends_a_task_that_was_long_and_inline_does_not(apps: Any) -> None:
    _, choice = apps(saga_inline_slice=2.0)
    choice.took("chosen.plain", 0.4)
    short = takes(choice, word="auto")
    choice.took("chosen.plain", 0.6)

    assert short
    assert not takes(choice, word="auto")
    assert takes(choice, word="inline")


def test_why_a_step_is_sent_is_told_once_for_each_task(apps: Any, caplog: pytest.LogCaptureFixture) -> None:
    _, choice = apps(saga_queue="sagas")
    with caplog.at_level("INFO", "celery_saga.inline"):
        for _ in range(3):
            takes(choice)
            takes(choice, "rated")
            takes(choice, "limited", word="auto")

    assert [record.message for record in caplog.records] == [
        "step 'k' (chosen.plain) is not executed inline but sent: it goes to 'celery', its run to 'sagas'",
        "step 'k' (chosen.rated) is not executed inline but sent: its task has a rate limit",
    ]


def test_a_router_that_raises_is_left_to_who_sends(apps: Any) -> None:
    def refuses(name: str, *_: Any, **__: Any) -> Any:
        raise ValueError(name)

    _, choice = apps(task_routes=[refuses])

    assert not takes(choice)
