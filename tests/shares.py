"""Which tests run side by side: those that watch processes and clocks one after another, the others beside them."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

_ONE_AFTER_ANOTHER = (
    "tests/faults/",
    "tests/runtime/",
    "tests/announcing/test_brokers.py",
    "tests/announcing/test_consumer.py",
    "tests/announcing/test_workers.py",
    "tests/flower/test_forgotten.py",
    "tests/flower/test_memory.py",
    "tests/flower/test_workers.py",
    "tests/chaos/test_chaos.py",
    "tests/desk/test_cancel_without_workers.py",
    "tests/desk/test_lost_broker.py",
    "tests/lanes/test_workers.py",
    "tests/support/",
    "tests/bench/test_command.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_watching.py",
    "tests/engine/test_broker_outage.py",
    "tests/inline/test_outage.py",
    "tests/inline/test_workers.py",
    "tests/canvases/test_workers.py",
    "tests/graphs/test_served.py",
    "tests/observing/test_log.py",
    "tests/observing/test_prometheus.py",
    "tests/observing/test_traces.py",
    "tests/progress/test_workers.py",
    "tests/scenarios/test_served.py",
    "tests/schedules/test_beat.py",
    "tests/schedules/test_workers.py",
    "tests/smoke/",
    "tests/transactional/test_prompt.py",
    "tests/transactional/test_workers.py",
    "tests/upgrading/test_upgrade.py",
    "tests/versions/test_reloading.py",
)
"""They start workers and servers, kill them and measure how long things take: two of them at once would disturb.

Those that start processes too, but only wait for what they do, run beside them: this share must not be the longer half.
"""


def is_one_after_another(nodeid: str) -> bool:
    """The test watches processes or clocks."""
    return nodeid.startswith(_ONE_AFTER_ANOTHER)


class Shares(LoadScopeScheduling):
    """With `-n`: a share is run by one process in order; shares are a file's tests, and all those that watch clocks."""

    def _split_scope(self, nodeid: str) -> str:
        return "one after another" if is_one_after_another(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares:
    """How tests are shared out: the longest share, which is first, begins at once."""
    config.option.loadscopereorder = False
    return Shares(config, log)
