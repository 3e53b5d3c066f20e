"""Marks every test of this folder: `-m faults` runs all of them, a plain run leaves out those that are `heavy`.

Heavy are the second broker of what was seen on one, and the long forms of what others show in short. Each experiment
keeps at least one test in the plain run, but for B04, whose RabbitMQ has to be started and then waited for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HEAVY = (
    "[2000 steps]",
    "[200 steps]",
    "[20 clients]",
    "[rabbitmq]",
    "-rabbitmq]",
    "[ten steps-redis]",
    "[redis-tests.faults.step_c-50]",
    "[True-redis]",
    "[rabbitmq-tests.faults.step_c-50]",
    "[redis-tests.faults.sagas-10]",
    "and_once_more[5]",
    "[serializable]",
    # the long forms of what B03, B11, the scenarios and a stopped child show in short
    "test_mixed_fleet.py",
    "test_an_hour_in_a_queue",
    "test_a_step_of_twenty_seconds",
    "no_worker_from_new_work",
    "each_order_once[mariadb]",
    "one_wakes_each_timer[5]",
    "fires_once_and_in_time[11]",
    "are_rows_and_nothing_else[20000]",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They all start processes, and talk to real servers."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.servers)
            if any(part in item.nodeid for part in HEAVY):
                item.add_marker(pytest.mark.heavy)
