"""The broker's transport is loaded, asked in bounded time, and able to count its messages."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from kombu.transport import virtual

from celery_saga.runtime.guard import Role
from tests.guard.world import add_task, closed_port, findings, make_app, silent_server
from tests.servers import RedisPlace


class ForgetfulChannel(virtual.Channel):
    """A channel that keeps nothing, and so counts nothing."""


class ForgetfulTransport(virtual.Transport):
    """A transport from elsewhere, as people write them."""

    Channel = ForgetfulChannel
    driver_type = "forgetful"
    driver_name = "forgetful"


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_down_is_an_error(scheme: str) -> None:
    with closed_port() as port:
        found = findings(make_app(f"{scheme}://127.0.0.1:{port}//"))

    assert found["BROKER_UNREACHABLE"].level.value == "error"
    assert "refused" in found["BROKER_UNREACHABLE"].sentence


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_never_answers_costs_no_more_than_its_time(scheme: str) -> None:
    with silent_server() as port:
        before_s = time.monotonic()
        found = findings(make_app(f"{scheme}://127.0.0.1:{port}//"), timeout_s=1.0)
        took_s = time.monotonic() - before_s

    assert "BROKER_UNREACHABLE" in found
    assert took_s < 2.5


def test_a_broker_that_answers_is_not_called_unreachable(redis_place: RedisPlace, rabbitmq_url: str) -> None:
    redis_url = str(redis_place.settings["broker_url"])
    for url in (redis_url, rabbitmq_url):
        assert "BROKER_UNREACHABLE" not in findings(make_app(url))


def test_a_transport_that_cannot_be_loaded_is_named() -> None:
    missing = findings(make_app(broker_transport="tests.guard.no_such_module:Transport"))
    unknown = findings(make_app("no-such-transport://"))

    assert "no_such_module" in missing["BROKER_TRANSPORT_UNUSABLE"].sentence
    assert "no-such-transport" in unknown["BROKER_TRANSPORT_UNUSABLE"].sentence
    assert "BROKER_TRANSPORT_UNUSABLE" not in findings(make_app("memory://"))


OLD_REDIS = """
import redis
redis.VERSION = (2, 10, 6)  # what kombu looks at
from celery import Celery
from celery_saga.runtime.guard import gather, inspect
app = Celery("checked", broker="redis://127.0.0.1:1//")
for finding in inspect(app, gather(app, timeout_s=0.5)):
    print(finding.code, finding.sentence)
"""


def test_a_redis_package_that_kombu_refuses_is_no_matter_of_the_server() -> None:
    ran = subprocess.run([sys.executable, "-c", OLD_REDIS], capture_output=True, text=True, timeout=60, check=True)

    assert "BROKER_TRANSPORT_UNUSABLE" in ran.stdout
    assert "2.10.6" in ran.stdout or "redis-py versions" in ran.stdout
    assert "BROKER_UNREACHABLE" not in ran.stdout


KOMBU_REDIS = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "packaging":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
if {hidden}:
    sys.meta_path.insert(0, Hidden())
from celery import Celery
from celery_saga.runtime.guard import gather, inspect
app = Celery("checked", broker="redis://127.0.0.1:1//")
print(*(finding.code for finding in inspect(app, gather(app, timeout_s=0.5))))
"""


@pytest.mark.parametrize("hidden", [True, False])
def test_redis_without_packaging_is_found_where_kombu_needs_it(hidden: bool) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", KOMBU_REDIS.format(hidden=hidden)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    needed = "packaging" in _source_of("kombu.transport.redis")
    assert ("KOMBU_REDIS_WITHOUT_PACKAGING" in ran.stdout.split()) is (hidden and needed)


def _source_of(module: str) -> str:
    import importlib.util

    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    return spec.loader.get_source(module) or ""  # type: ignore[attr-defined]


def test_a_transport_that_counts_nothing_and_was_never_tried_is_told() -> None:
    found = findings(make_app(broker_transport=f"{__name__}:ForgetfulTransport"))

    assert {"BROKER_UNTRIED", "BROKER_WITHOUT_DEPTH"} <= found.keys()


def test_the_transports_that_were_tried_are_not_told(rabbitmq_url: str) -> None:
    for url in ("memory://", "filesystem://", rabbitmq_url):
        assert not {"BROKER_UNTRIED", "BROKER_WITHOUT_DEPTH"} & findings(make_app(url)).keys()


def test_the_memory_transport_is_told_in_a_worker_only() -> None:
    app = make_app("memory://")

    assert "BROKER_IN_MEMORY" in findings(app, role=Role.WORKER)
    assert "BROKER_IN_MEMORY" not in findings(app, role=Role.CLIENT)


@pytest.mark.parametrize(("cancels", "code"), [(True, "CONNECTION_LOSS_CANCELS"), (False, "CONNECTION_LOSS_REPEATS")])
def test_what_a_connection_loss_does_is_told_for_late_acking_tasks_only(cancels: bool, code: str) -> None:
    late = make_app(worker_cancel_long_running_tasks_on_connection_loss=cancels)
    add_task(late, "shop.charge", acks_late=True)
    early = make_app(worker_cancel_long_running_tasks_on_connection_loss=cancels)
    add_task(early, "shop.charge")

    both = {"CONNECTION_LOSS_CANCELS", "CONNECTION_LOSS_REPEATS"}
    assert both & findings(late).keys() == {code}
    assert not both & findings(early).keys()
