"""Our names and the user's tasks are routed once, for real, without changing what is consumed."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest
from celery import Celery
from celery.app.amqp import AMQP
from kombu import Queue

from celery_saga.engine.schedules import ScheduleDriver
from celery_saga.runtime.drivers import use_driver
from celery_saga.runtime.guard import Role, gather
from celery_saga.runtime.names import COORDINATE, REPORT, STEP
from tests.guard.world import add_task, findings, make_app

STRICT: dict[str, Any] = {
    "task_queues": (Queue("orders"),),
    "task_default_queue": "orders",
    "task_create_missing_queues": False,
}


def only_shop(name: str, args: object, kwargs: object, options: object, **rest: object) -> dict[str, str]:
    """A router as people write them, who forget that others send tasks too."""
    if not name.startswith("shop."):
        raise LookupError(f"nobody told me about {name}")
    return {"queue": "celery"}


def by_tenant(name: str, args: Any, kwargs: object, options: object, **rest: object) -> dict[str, str] | None:
    """A router that needs the arguments of the user's tasks."""
    return {"queue": f"tenant-{args[0]}"} if name.startswith("shop.") else None


def sleepy(name: str, args: object, kwargs: object, options: object, **rest: object) -> None:
    """A router that asks a service which does not answer."""
    import threading

    threading.Event().wait(5)


def test_the_default_routing_takes_all_our_names() -> None:
    app = make_app()
    add_task(app, "shop.charge")

    facts = gather(app)

    assert [(route.task, route.queue) for route in facts.routes] == [
        (COORDINATE, "celery"),
        (STEP, "celery"),
        (REPORT, "celery"),
        ("shop.charge", "celery"),
    ]
    assert not {"ROUTE_REFUSED", "STEP_ROUTE_UNKNOWN_QUEUE", "STEP_ROUTE_RAISES"} & findings(app).keys()


def test_a_router_that_raises_on_our_names_is_an_error_that_quotes_it() -> None:
    found = findings(make_app(task_routes=(only_shop,)))["ROUTE_REFUSED"]

    assert found.level.value == "error"
    assert "nobody told me about" in found.sentence


def test_a_router_by_path_is_called_too() -> None:
    assert "ROUTE_REFUSED" in findings(make_app(task_routes=(f"{__name__}.only_shop",)))


def test_a_router_that_does_not_answer_costs_no_more_than_its_time() -> None:
    app = make_app(task_routes=(sleepy,))
    for number in range(200):
        add_task(app, f"shop.t{number}")

    before_s = time.monotonic()
    found = findings(app, timeout_s=0.5)

    assert "ROUTE_REFUSED" in found
    assert "not asked" in found["STEP_ROUTE_RAISES"].sentence
    assert time.monotonic() - before_s < 2.5


def test_a_saga_queue_that_strict_queues_do_not_have_is_an_error() -> None:
    assert "ROUTE_REFUSED" in findings(make_app(**STRICT, saga_queue="sagas"))
    assert "ROUTE_REFUSED" not in findings(make_app(**STRICT, saga_queue="orders"))
    assert "ROUTE_REFUSED" not in findings(make_app(**STRICT))


def test_a_route_of_ours_to_an_unknown_strict_queue_is_an_error() -> None:
    routes = {"celery_saga.*": {"queue": "sagas"}}

    assert "ROUTE_REFUSED" in findings(make_app(**STRICT, task_routes=routes))


@pytest.mark.filterwarnings("ignore:(?s).*'queue' task attribute:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:(?s).*'queue' task attribute:celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("by", ["route", "task"])
def test_a_task_that_goes_to_an_unknown_strict_queue_is_an_error(by: str) -> None:
    routes = {"shop.charge": {"queue": "money"}} if by == "route" else {}
    app = make_app(**STRICT, task_routes=routes)
    add_task(app, "shop.charge", **({} if by == "route" else {"queue": "money"}))
    add_task(app, "shop.mail")

    found = findings(app)["STEP_ROUTE_UNKNOWN_QUEUE"]

    assert "shop.charge" in found.sentence
    assert "shop.mail" not in found.sentence


def test_a_router_that_needs_arguments_is_a_warning_only() -> None:
    app = make_app(task_routes=(by_tenant,))
    add_task(app, "shop.charge")

    found = findings(app)

    assert found["STEP_ROUTE_RAISES"].level.value == "warning"
    assert not {"ROUTE_REFUSED", "STEP_ROUTE_UNKNOWN_QUEUE"} & found.keys()


def test_a_worker_that_does_not_consume_the_queue_of_a_beats_messages_is_told() -> None:
    app = make_app(task_routes={"celery_saga.fire": {"queue": "beats"}})
    assert "SAGA_QUEUE_NOT_CONSUMED" not in findings(app, role=Role.WORKER, queues=["celery"])

    before = use_driver(lambda app: cast(ScheduleDriver, object()))
    try:
        told = findings(app, role=Role.WORKER, queues=["celery"])
        assert "celery_saga.fire goes to the queue 'beats'" in told["SAGA_QUEUE_NOT_CONSUMED"].sentence
        assert "SAGA_QUEUE_NOT_CONSUMED" not in findings(app, role=Role.WORKER, queues=["celery", "beats"])
    finally:
        use_driver(before)


def test_a_worker_that_does_not_consume_the_coordinators_queue_is_told() -> None:
    app = make_app(saga_queue="sagas")

    told = findings(app, role=Role.WORKER, queues=["celery"])
    assert "-Q" in told["SAGA_QUEUE_NOT_CONSUMED"].remedy
    assert "SAGA_QUEUE_NOT_CONSUMED" in findings(app, role=Role.WORKER)
    assert "SAGA_QUEUE_NOT_CONSUMED" not in findings(app, role=Role.WORKER, queues=["celery", "sagas"])
    assert "SAGA_QUEUE_NOT_CONSUMED" not in findings(app, role=Role.CLIENT)


def test_the_check_makes_a_worker_consume_no_more_queues() -> None:
    app = make_app(saga_queue="sagas", task_routes={"shop.*": {"queue": "money"}})
    add_task(app, "shop.charge")

    findings(app, role=Role.WORKER)

    assert list(app.amqp.queues.consume_from) == ["celery"]


class OwnAMQP(AMQP):
    """An app's own way to its queues, given as a class."""


@pytest.mark.parametrize("amqp", [OwnAMQP, f"{__name__}:OwnAMQP"])
def test_an_app_with_an_amqp_class_of_its_own_is_routed_by_it(amqp: type | str, rabbitmq_url: str) -> None:
    app = Celery("checked", broker=rabbitmq_url, amqp=amqp, set_as_current=False)

    facts = gather(app)

    assert [route.queue for route in facts.routes] == ["celery"] * 3
    assert [queue.name for queue in facts.broker.queues] == ["celery"]


def test_messages_without_headers_are_an_error() -> None:
    assert "TASK_PROTOCOL_1" in findings(make_app(task_protocol=1))
    assert "TASK_PROTOCOL_1" not in findings(make_app())


@pytest.mark.parametrize(
    ("accepted", "told"),
    [(["pickle"], True), (["json"], False), (["application/json"], False), (["yaml", "json"], False)],
)
def test_a_serializer_that_workers_refuse_is_an_error(accepted: list[str], told: bool) -> None:
    assert ("CONTENT_NOT_ACCEPTED" in findings(make_app(accept_content=accepted))) is told
