"""Any registered task is a step, and is what it was when it is called outside a saga."""

from __future__ import annotations

from collections.abc import Iterator

import celery
import pytest
from celery.signals import before_task_publish

from tests.runtime.places import Place, place_with
from tests.workers import Worker, wait_until

pytestmark = pytest.mark.servers
NEEDS_5_5 = pytest.mark.skipif(celery.__version__ < "5.5", reason="pydantic tasks came with Celery 5.5")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_with("redis", tmp_path_factory.mktemp("kinds")) as found:
        yield found


@pytest.fixture(scope="module")
def worker(place: Place) -> Iterator[Worker]:
    with place.worker() as found:
        yield found


@pytest.fixture(autouse=True)
def _fresh_log(place: Place) -> None:
    place.log.write_text("")


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("bound", "kinds.bound 0 [3] True"),
        ("classy", 4),
        ("wrapped", 6),
        ("typed", "Parcel 5 Label 2 True {'a': 1}"),
        ("asks_again", "3 after 2"),
        ("nested", 10),
        pytest.param("validated", {"text": "xxx", "copies": 1}, marks=NEEDS_5_5),
    ],
)
def test_each_kind_of_task_is_a_step(kind: str, result: object, place: Place, worker: Worker) -> None:
    assert place.shop.kind_of.start(kind).wait(15) == result


def test_hooks_of_the_task_see_the_real_arguments(place: Place, worker: Worker) -> None:
    place.shop.kind_of.start("wrapped").wait(15)
    wait_until(lambda: len(place.calls()) == 4, what="the last hook")  # it comes after the checkpoint

    assert place.calls() == ["before_start [3]", "call (3,)", "called 6", "on_success 6 [3]"]


def test_outside_a_saga_tasks_keep_results_arguments_and_hooks(place: Place, worker: Worker) -> None:
    shop = place.shop

    assert shop.wrapped.delay(5).get(timeout=15) == 10
    wait_until(lambda: len(place.calls()) == 4, what="the last hook")
    assert place.calls() == ["before_start [5]", "call (5,)", "called 10", "on_success 10 [5]"]
    assert shop.classy.delay(1).get(timeout=15) == 2
    assert shop.asks_again.delay(1).get(timeout=15) == "3 after 2"


def test_outside_a_saga_a_task_retries_by_itself(place: Place, worker: Worker) -> None:
    assert place.shop.charge.delay("key", 13).get(timeout=15) == "ch-13"
    assert [line.split()[3] for line in place.calls()] == ["0", "1", "2"]


def test_a_signature_with_step_options_is_an_ordinary_one_outside_a_saga(place: Place, worker: Worker) -> None:
    shop = place.shop

    assert shop.step(shop.reserve.si("o"), undo=shop.release).delay().get(timeout=15) == "r-o"


def test_sending_a_task_in_a_body_parks_the_run_and_sends_nothing(place: Place, worker: Worker) -> None:
    run = place.shop.impure.start()

    wait_until(lambda: run.refresh().status == "suspended", what="parked")
    assert "run.step(reserve.si(...))" in str(run.error)
    assert place.calls() == []


def test_a_saga_can_be_started_as_a_task(place: Place, worker: Worker) -> None:
    run_id = place.shop.app.send_task("saga.checkout", ("o9", 7)).get(timeout=15)

    assert place.shop.app.saga.get(run_id).wait(15) == "ch-7"


def test_a_step_goes_to_the_queue_and_with_the_headers_of_its_signature(place: Place) -> None:
    with place.worker(options=("-Q", "celery,elsewhere")):
        run = place.shop.kind_of.start("queued")
        assert run.wait(15) == 1
    queue, tenant = place.calls()[0].split()[1:]

    assert (queue, tenant) == ("elsewhere", "t")


def test_headers_that_hooks_add_where_a_run_is_started_go_on_its_steps(place: Place, worker: Worker) -> None:
    def add_tenant(headers: dict[str, object], **_: object) -> None:
        headers.setdefault("tenant", "acme")

    before_task_publish.connect(add_tenant)
    try:
        run = place.shop.kind_of.start("one")
    finally:
        before_task_publish.disconnect(add_tenant)

    assert run.wait(15) == 1
    assert place.calls() == ["one celery acme"]
