"""`AsyncResult(run_id)` answers for a run, from a real result backend."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeout

from celery_saga import InvalidPayload, RunFailed
from celery_saga.core.lifecycle import Purpose
from tests.announcing.house import House, house_with
from tests.servers import PrivateRedis, fresh_redis_place

pytestmark = pytest.mark.servers


@pytest.fixture(params=["redis", "sqlalchemy"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    with fresh_redis_place() as place:
        settings = {**place.settings, "saga_publish_results": True}
        if request.param == "sqlalchemy":
            settings["result_backend"] = f"db+sqlite:///{tmp_path}/results.db"
        with house_with(f"sqlite:///{tmp_path}/sagas.db", **settings) as found:
            yield found


def result(house: House, run: Any) -> Any:
    return house.app.AsyncResult(run.id)


def test_a_completed_run_gives_its_result(house: House) -> None:
    run = house.order.start("o1")
    before = result(house, run).state
    assert house.drain(Purpose.RESULT) == 1

    assert before == "PENDING"
    assert result(house, run).get(timeout=5) == "s-o1"
    assert result(house, run).successful()


def test_a_failed_run_raises_what_its_handle_raises(house: House) -> None:
    run = house.order.start("none")
    house.drain(Purpose.RESULT)

    assert result(house, run).state == "FAILURE"
    with pytest.raises(RunFailed, match="OutOfStock: none"):
        result(house, run).get(timeout=5)


def test_a_cancelled_run_is_revoked(house: House) -> None:
    run = house.approval.start()
    run.cancel()
    house.drain(Purpose.RESULT)

    assert result(house, run).state == "REVOKED"
    with pytest.raises(TaskRevokedError):
        result(house, run).get(timeout=5)


def test_a_run_that_starts_over_is_pending_again_and_shows_its_last_end(house: House) -> None:
    run = house.order.start("o1")
    house.drain(Purpose.RESULT)
    first = result(house, run).state
    run.compensate()
    house.drain(Purpose.RESULT)

    assert (first, result(house, run).state, run.refresh().status) == ("SUCCESS", "REVOKED", "cancelled")


def test_a_run_that_has_left_its_end_is_pending(house: House) -> None:
    run = house.approval.start()
    run.cancel()
    house.drain(Purpose.RESULT)
    before = result(house, run).state
    run.retry()
    house.drain(Purpose.RESULT)

    assert (before, result(house, run).state, run.refresh().status) == ("REVOKED", "PENDING", "waiting")


def test_values_that_the_serializer_takes_are_kept_and_others_are_told(house: House) -> None:
    kept = house.rich.start({"list": [1, 2.5, None], "amount": Decimal("1.50"), "text": "ä"})
    refused = house.rich.start({"deep": [{1, 2}]})
    after = house.rich.start("after it")
    assert house.drain(Purpose.RESULT) == 3

    assert result(house, kept).get(timeout=5) == {"list": [1, 2.5, None], "amount": Decimal("1.50"), "text": "ä"}
    with pytest.raises(InvalidPayload, match=r"set is not JSON serializable.*nothing of the run was changed"):
        result(house, refused).get(timeout=5)
    assert refused.result == {"deep": [{1, 2}]}
    assert result(house, after).get(timeout=5) == "after it"


def test_a_result_is_kept_as_long_as_the_app_says(tmp_path: Path) -> None:
    with fresh_redis_place() as place:
        settings = {**place.settings, "saga_publish_results": True, "result_expires": 77}
        with house_with(f"sqlite:///{tmp_path}/sagas.db", **settings) as house:
            run = house.order.start("o1")
            house.drain(Purpose.RESULT)
            key = house.app.backend.get_key_for_task(run.id)
            assert 70 < house.app.backend.client.ttl(key) <= 77


def test_an_app_that_ignores_results_keeps_none_but_the_errors_it_wants(tmp_path: Path) -> None:
    with fresh_redis_place() as place:
        settings = {**place.settings, "saga_publish_results": True, "task_ignore_result": True}
        settings["task_store_errors_even_if_ignored"] = True
        with house_with(f"sqlite:///{tmp_path}/sagas.db", **settings) as house:
            good, bad = house.order.start("o1"), house.order.start("none")
            assert house.drain(Purpose.RESULT) == 2
            assert [result(house, run).state for run in (good, bad)] == ["PENDING", "FAILURE"]


def test_without_a_backend_it_is_told_and_nothing_piles_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with house_with(f"sqlite:///{tmp_path}/sagas.db", saga_publish_results=True) as house:
        house.order.start("o1")
        assert house.drain(Purpose.RESULT) == 1
        assert house.drain(Purpose.RESULT) == 0

    assert "saga_publish_results is set, but the result backend disabled:// cannot show runs" in caplog.text


def test_while_the_backend_is_away_results_wait_and_come_later(tmp_path: Path) -> None:
    with PrivateRedis() as redis, fresh_redis_place() as place:
        backend = {"result_backend": redis.url, "redis_socket_connect_timeout": 1, "redis_retry_on_timeout": False}
        backend["result_backend_transport_options"] = {"retry_policy": {"max_retries": 0}}
        settings = {"broker_url": place.url, "saga_publish_results": True, **backend}
        with house_with(f"sqlite:///{tmp_path}/sagas.db", **settings) as house:
            redis.kill()
            run = house.order.start("o1")
            assert house.drain(Purpose.RESULT) == 0
            redis.start()
            assert house.drain(Purpose.RESULT) == 1
            assert result(house, run).get(timeout=5) == "s-o1"


def test_the_task_that_starts_a_run_answers_with_its_id_and_the_run_with_its_result(house: House) -> None:
    house.app.finalize()
    house.app.conf.task_store_eager_result = True
    started = house.app.tasks["saga.order"].apply_async(("o1",), task_id="11111111-1111-4111-8111-111111111111")
    house.drain(Purpose.RESULT)

    run_id = started.get(timeout=5)
    assert house.app.AsyncResult(run_id).get(timeout=5) == "s-o1"
    assert run_id != started.id


def test_nobody_waits_for_ever_for_a_run_of_an_app_that_does_not_publish(tmp_path: Path) -> None:
    with fresh_redis_place() as place, house_with(f"sqlite:///{tmp_path}/sagas.db", **place.settings) as house:
        run = house.order.start("o1")
        with pytest.raises(CeleryTimeout):
            result(house, run).get(timeout=0.2)
