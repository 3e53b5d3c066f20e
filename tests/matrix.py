"""Which cells of the large matrices a plain run leaves out, because they repeat elsewhere what it shows."""

from __future__ import annotations

_ON_EVERY_STORE = ("test_checkout", "test_waiting")
"""Files of scenarios that are run once on each database; the others once on PostgreSQL."""
_DYING = (
    *("sqlite-child]", "sqlite-failure]", "sqlite-failure, inline]"),
    *("sqlite-signal]", "sqlite-abort]", "sqlite-race]", "sqlite-fine]"),
    *("sqlite-completed]", "sqlite-broker]", "postgresql-failure]"),
)
"""Stories in which a plain run lets somebody die at every point."""
_STOPPED = ("sqlite-failure-others finish]", "sqlite-race-others finish]", "[fine-others finish]")
"""Stories in which a plain run stops somebody at every point."""
_MISSED = ("claim token", "quiesce")
"""Guards without which the sweep of deaths is seen to fail in a plain run."""
_ON_ONE_BROKER = (
    "tests/scenarios/test_served.py",
    "tests/inline/test_workers.py",
    "tests/runtime/test_foreign_workers.py",
    "tests/transactional/test_workers.py",
    "tests/graphs/test_served.py",
    "tests/examples/test_existing_project.py",
    "tests/progress/test_workers.py",
    "tests/canvases/test_workers.py",
    "tests/desk/test_lost_broker.py",
)
"""Files about real workers whose cells on RabbitMQ are left out; the others' are not."""
_IN_ONE_POOL = (
    "tests/inline/test_workers.py",
    "tests/progress/test_workers.py",
    "tests/runtime/test_checkout.py",
    "tests/runtime/test_pools.py",
)
"""Files about real workers whose cells in threads and alone (solo) are left out; prefork and gevent stay."""
_LARGEST = (
    *("[a race, cancelled]", "[a race, then a failure]", "[a race with a signal]", "[two functions, suspended]"),
    *("[a parent is cancelled]", "[a chord]"),
    *("[two functions, one fails]", "[a child in a scope]", "[two steps, cancelled]", "[one without undo]"),
)
"""Scenarios of the model that take minutes together; smaller ones of the same kind are in a plain run."""


_ANNOUNCED_ON_REDIS = ("test_events_come_in_the_order", "test_messages_are_done", "test_killed_between")
"""Of events and the consumer, what is shown on both brokers in a plain run."""


def is_repetition(nodeid: str) -> bool:
    """The test is the same as another one, on a driver, with a delivery or at a size that says little more."""
    path, _, name = nodeid.partition("::")
    cell = name[name.find("[") :] if "[" in name else ""
    if path.startswith("tests/scenarios/") and path not in _ON_ONE_BROKER:
        return _is_of_a_scenario(path.rpartition("/")[2].removesuffix(".py"), cell)
    if path.startswith("tests/crash/") or path == "tests/versions/test_dying.py":
        return bool(cell) and not cell.endswith((*_DYING, *_STOPPED)) and cell.strip("[]") not in _MISSED
    if path.startswith("tests/announcing/") and not path.endswith("test_results.py"):
        return "[redis" in cell and not name.startswith(_ANNOUNCED_ON_REDIS)
    if path in _IN_ONE_POOL and cell.startswith(("[threads", "[solo")):
        return True
    if path in _ON_ONE_BROKER:
        return "[rabbitmq" in cell or "-rabbitmq" in cell
    if path == "tests/cli/test_commands.py":
        return cell.startswith("[postgresql")
    if path in ("tests/cli/test_contract.py", "tests/cli/test_repairing.py"):
        return "celery saga" in cell and "success" not in name
    if path == "tests/lanes/test_deaths.py":
        return cell != "[4]"
    if path == "tests/lanes/test_random.py":
        return len(cell) > len("[7]")  # ten walks are in a plain run
    if path == "tests/lanes/test_pause.py":
        return cell.startswith(("[mariadb", "[postgresql"))
    if path.startswith("tests/model/"):
        return cell in _LARGEST
    return path.startswith("tests/transactional/") and (
        cell.startswith("[psycopg") or (cell.startswith("[mariadb") and path.endswith("test_callers.py"))
    )


def _is_of_a_scenario(file: str, cell: str) -> bool:
    if "psycopg-" in cell or any(f"{store}-twice" in cell for store in ("sqlite-file", "mariadb", "postgresql")):
        return True
    if file in _ON_EVERY_STORE:
        return False
    return any(f"{store}-once" in cell for store in ("sqlite-memory", "sqlite-file", "mariadb"))
