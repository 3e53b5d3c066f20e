"""The scenarios over real workers: one prefork worker on Redis, one on RabbitMQ, both with PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_saga import DeadlineExceeded, RunFailed
from tests.runtime.places import Place, place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers

ENDS_S = 20.0


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The app's module in this process, with a worker that serves it."""
    directory = tmp_path_factory.mktemp("served")
    with place_with(request.param, directory, module="tests.scenarios.served") as place, place.worker():
        place.shop.place = place
        yield place.shop


def _rests(handle: Any, status: str) -> None:
    wait_until(lambda: handle.refresh().status == status, ENDS_S, f"status {status}")


def test_a01_the_same_order_twice_is_one_run(served: Any) -> None:
    first, second = served.checkout.start("o1", 500), served.checkout.start("o1", 500)

    assert first.wait(ENDS_S) == second.wait(ENDS_S) == {"chargeId": "ch_1"}
    assert (first.id, second.created) == (second.id, False)
    assert served.calls("o1") == ["reserve o1", "charge 500", "dispatch o1"]


def test_a02_a_flaky_gateway_is_tried_again_under_one_key(served: Any) -> None:
    handle = served.checkout.start("flaky", 500)

    handle.wait(ENDS_S)

    assert served.calls("flaky") == ["reserve flaky", *["charge 500"] * 3, "dispatch flaky"]
    assert len(served.keys("flaky", "charge 500")) == 1


def test_a03_a_dead_gateway_undoes_what_was_done_and_only_that(served: Any) -> None:
    handle = served.checkout.start("down", 500)

    with pytest.raises(RunFailed) as caught:
        handle.wait(ENDS_S)

    assert isinstance(caught.value.cause, served.GatewayTimeout)
    assert served.calls("down") == ["reserve down", *["charge 500"] * 3, "release down"]


def test_a04_undos_run_last_in_first_out_and_get_the_result(served: Any) -> None:
    handle = served.checkout.start("none", 500)

    with pytest.raises(RunFailed) as caught:
        handle.wait(ENDS_S)

    assert isinstance(caught.value.cause, served.OutOfStock)
    assert served.calls("none")[-3:] == ["dispatch none", "refund ch_1", "release none"]


def test_a05_a06_a_person_approves_from_another_process(served: Any) -> None:
    handle = served.checkout.start("o6", 200_000)
    _rests(handle, "waiting")
    waiting = served.calls("o6")
    place: Place = served.place
    code = "from tests.scenarios import served; served.checkout.find(key='o6').signal('approval', True)"
    subprocess.run([sys.executable, "-c", code], env={**place.worker()._environment}, check=True, timeout=30)

    handle.wait(ENDS_S)

    assert waiting == ["reserve o6"]
    assert served.calls("o6") == ["reserve o6", "charge 200000", "dispatch o6"]


def test_a10_a_signal_sent_before_the_run_exists_is_taken(served: Any) -> None:
    assert served.approve.find(key="early").signal("approve", {"by": "boss"}) == "kept"

    assert served.approve.start("early").wait(ENDS_S) == {"approvedBy": "boss"}


def test_a11_cancel_ends_a_waiting_run_at_once(served: Any) -> None:
    handle = served.long_wait.start("cancelled")
    _rests(handle, "waiting")

    answer = handle.cancel()

    assert answer == handle.cancel() == {"cancelled": True, "status": "cancelled"}
    assert [row.action for row in handle.history()] == ["cancel"]


def test_a12_a_deadline_ends_a_waiting_run(served: Any) -> None:
    handle = served.long_wait.options(deadline=0.5).start("late")

    with pytest.raises(RunFailed) as caught:
        handle.wait(ENDS_S)

    assert isinstance(caught.value.cause, DeadlineExceeded)
    assert served.calls("late") == []
    assert "ok" not in [row.action for row in handle.history()]


def test_a15_a_retry_of_the_run_runs_only_the_failed_step_again(served: Any) -> None:
    assert served.twice.start("again").wait(ENDS_S) == {"a": "one", "b": "two"}

    assert served.calls("again") == ["one", "two", "two"]


def test_a16_ten_attempts_of_a_body_run_each_step_once(served: Any) -> None:
    handle = served.stubborn.start("ten")

    with pytest.raises(RunFailed):
        handle.wait(ENDS_S)

    assert [what for what in served.calls("ten") if what != "body"] == ["x", "y", "z"]
    assert served.calls("ten").count("body") >= 10  # a duplicated wake-up may replay a pass once more


def test_a17_without_options_a_step_is_tried_once(served: Any) -> None:
    handle = served.once.start("single")

    with pytest.raises(RunFailed, match="flaky"):
        handle.wait(ENDS_S)

    assert served.calls("single") == ["once"]


def test_a18_a_sleep_wakes_without_anybody_doing_anything(served: Any) -> None:
    assert served.nap.start("sleepy").wait(ENDS_S) == "awake"


def test_a22_rich_types_keep_value_and_type(served: Any) -> None:
    given = {"when": datetime(2026, 5, 1, 12, tzinfo=UTC), "tags": {"a", "b"}, "n": 42, "big": 2**80}

    result = served.rich.start("rich", given).wait(ENDS_S)

    assert result == {**given, "total": 49}
    assert (type(result["tags"]), type(result["when"])) == (set, datetime)


def test_a25_a_run_stays_with_the_version_it_started_with(served: Any) -> None:
    old, new = served.first_version.start("v1"), served.second_version.start("v2")
    for handle in (old, new):
        _rests(handle, "waiting")
        handle.signal("go")

    assert (old.wait(ENDS_S), new.wait(ENDS_S)) == ("old", "new")


def test_a30_on_failure_suspend_parks_and_resume_tries_the_step_again(served: Any) -> None:
    handle = served.careful.start("parked")
    _rests(handle, "suspended")
    parked = served.calls("parked")

    handle.resume(by="operator", reason="fixed")

    assert handle.wait(ENDS_S) == "b"
    assert (parked, served.calls("parked")) == (["a", "b"], ["a", "b", "b"])


def test_a13_a_map_keeps_the_order_of_its_items_and_the_bound_on_those_in_flight(served: Any) -> None:
    assert served.bounded.start("a13").wait(ENDS_S) == [2, 4, 6]

    in_flight, most = 0, 0
    for call in served.calls("a13"):
        in_flight += 1 if call.startswith("begin") else -1
        most = max(most, in_flight)
    assert 1 <= most <= 2


def test_a14_a_collected_group_goes_on_by_the_ok_path(served: Any) -> None:
    assert served.branches.start("a14").wait(ENDS_S) == [2, 1, ["a", "b", "c"]]


def test_a31_a_signal_wins_the_race_against_a_time(served: Any) -> None:
    handle = served.race.start("a31", signal=True)
    _rests(handle, "waiting")

    handle.signal(served.GO, "now")

    assert handle.wait(ENDS_S) == "signal now"


def test_a31_an_arm_that_raises_does_not_lose_the_race_for_the_others(served: Any) -> None:
    assert served.race.start("a31 b", signal=False).wait(ENDS_S) == "slow ch_1"


def test_what_a_failed_group_did_is_undone_whatever_ended_first(served: Any) -> None:
    with pytest.raises(RunFailed):
        served.undone.start("undone").wait(ENDS_S)

    calls = served.calls("undone")
    assert ("release undone" in calls) == ("reserve undone" in calls)
    assert ("refund ch_1" in calls) == ("charge 5" in calls)


def test_children_are_runs_of_their_own_on_the_same_workers(served: Any) -> None:
    handle = served.family.start("kids")

    assert handle.wait(ENDS_S) == ["label", "label", "thanks"]
    assert sorted(served.calls("kids")) == sorted([*("pay", "thanks", "dispatch kids"), *("pack", "label") * 2])


def test_a_failed_parent_undoes_its_children_last_in_first_out(served: Any) -> None:
    handle = served.family.start("none-kids")

    with pytest.raises(RunFailed):
        handle.wait(ENDS_S)

    undone = [x for x in served.calls("none-kids") if x in ("tear", "unpack", "repay")]
    assert undone == ["tear", "unpack", "tear", "unpack", "repay"]


def test_a_cancel_goes_down_to_a_child_that_waits(served: Any) -> None:
    handle = served.family.start("stop-kids", True)
    wait_until(lambda: served.calls("stop-kids").count("pack") == 2, ENDS_S, "the second child")
    _rests(handle, "waiting")

    assert handle.cancel() == {"cancelled": True, "status": "compensating"}
    _rests(handle, "cancelled")

    undone = [x for x in served.calls("stop-kids") if x in ("tear", "unpack", "repay")]
    assert undone == ["unpack", "tear", "unpack", "repay"]
