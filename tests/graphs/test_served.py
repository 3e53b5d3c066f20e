"""The scenarios of graphs over real workers, which never saw the graphs: they find them stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import DeadlineExceeded, RunFailed, Saga
from tests.graphs.corpus import END, graph
from tests.runtime.places import place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers

ENDS_S = 20.0


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of tasks in this process, with a worker that serves it."""
    directory = tmp_path_factory.mktemp("graphs")
    with place_with(request.param, directory, module="tests.graphs.served") as place, place.worker():
        yield place.shop


def _saga(name: str, states: dict[str, Any], **others: Any) -> Saga[..., Any]:
    return Saga.from_graph({**graph(states), "name": f"gs-{name}", **others})


def _asked(served: Any, run_id: str) -> list[str]:
    return [call[0] for call in served.calls(run_id)]


def test_a07_quick_start(served: Any) -> None:
    mail = _saga("mail", {"send": {"step": "gs.mail", "on": {"ok": "done"}}, "done": END})

    assert mail.start({"to": "ann@example.org"}).wait(ENDS_S) == {"to": "ann@example.org"}


def test_a08_two_starts_of_one_key_are_one_run_with_one_idempotency_key(served: Any) -> None:
    pay = _saga("pay", {"charge": {"step": "gs.charge", "on": {"ok": "done"}}, "done": END})

    first, second = (pay.options(key="order-42").start({"order": 42}) for _ in range(2))

    assert first.wait(ENDS_S) == second.wait(ENDS_S) == "ch_1"
    assert [call[2] for call in served.calls(first.id)] == [f"{first.id}:1:charge"]


def test_a09_what_was_charged_is_refunded_when_it_cannot_be_shipped(served: Any) -> None:
    states = {
        "charge": {"step": "gs.charge", "undo": "gs.refund", "on": {"ok": "ship"}},
        "ship": {"step": "gs.ship", "on": {"ok": "done", "fail": "lost"}},
        "done": END,
        "lost": {"end": "failed"},
    }
    handle = _saga("ship", states).start("o1")

    with pytest.raises(RunFailed, match="none left"):
        handle.wait(ENDS_S)

    assert _asked(served, handle.id) == ["charge", "ship", "refund"]
    assert [row.action for row in handle.history()] == ["ok", "fail", "ok", "end"]


def test_a10_an_approval_with_a_payload(served: Any) -> None:
    ask = {"signal": "approve", "timeout_s": 604_800, "on": {"signal": "done"}}
    approve = _saga("approve", {"ask": ask, "done": {**END, "output": {"approvedBy": "$.ask.by"}}})
    assert approve.find(key="early").signal("approve", {"by": "boss"}) == "kept"

    assert approve.options(key="early").start().wait(ENDS_S) == {"approvedBy": "boss"}


WAITS = {
    "pause": {"wait": 86_400, "on": {"ok": "charge"}},
    "charge": {"step": "gs.charge", "on": {"ok": "done"}},
    "done": END,
}


def test_a11_cancel_while_waiting(served: Any) -> None:
    handle = _saga("waits", WAITS).start()
    wait_until(lambda: handle.refresh().status == "waiting", ENDS_S, "status waiting")

    assert handle.cancel() == {"cancelled": True, "status": "cancelled"}
    assert [row.action for row in handle.history()] == ["cancel"]


def test_a12_a_deadline_while_waiting(served: Any) -> None:
    handle = _saga("late", WAITS, deadline_s=0.5).start()

    with pytest.raises(RunFailed) as caught:
        handle.wait(ENDS_S)

    assert isinstance(caught.value.cause, DeadlineExceeded)
    assert served.calls(handle.id) == []
    assert "ok" not in [row.action for row in handle.history()]


def test_a13_a_map_joins_in_input_order(served: Any) -> None:
    said = {"task": "gs.double", "items": "$.input", "concurrency": 2}
    handle = _saga("double", {"all": {"map": said, "on": {"ok": "done"}}, "done": END}).start([1, 2, 3])

    assert handle.wait(ENDS_S) == [2, 4, 6]

    in_flight = most = 0
    for what, *_ in sorted(served.calls(handle.id), key=lambda call: call[3]):
        in_flight += 1 if what == "begin" else -1
        most = max(most, in_flight)
    assert most <= 2


def test_a14_collect_goes_on_with_named_results(served: Any) -> None:
    branches = {name: {"step": "gs.branch", "args": [name]} for name in "abc"}
    join = {"parallel": {"branches": branches, "on_failure": "collect"}, "on": {"ok": "done"}}

    output = _saga("collect", {"both": join, "done": END}).start().wait(ENDS_S)

    assert (output["succeeded"], output["failed"]) == (2, 1)
    assert [(each["name"], each["output"]) for each in output["results"]] == [("a", "A"), ("b", None), ("c", "C")]
