"""One chaos from its seed to its findings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from celery_saga.errors import SagaError
from tests.chaos import gather, ledger, sagas
from tests.chaos.checker import check
from tests.chaos.customers import Customers
from tests.chaos.evidence import Evidence
from tests.chaos.fleet import Fleet
from tests.chaos.plan import SLOTS, Plan, plan_of
from tests.chaos.servers import Database, servers
from tests.chaos.trouble import Trouble
from tests.faults.world import World, world_with

LEASE_S, SWEEP_S = 6.0, 0.5
LOG_FORMAT = "[%(levelname)s %(name)s %(process)d] %(asctime)s %(message)s"
SETTLE_S = 120.0
"""How long runs may need to end once the trouble is over: many leases, because the machine may be slow."""
MOST_LIVE = 60


@dataclass
class Outcome:
    """What a chaos gave.

    Args:
        settled_s: from the end of the trouble to the end of the last run; None: some never ended.
        notes: what is worth knowing, and no finding: faults that could not be done, workers that were slow to start.
    """

    plan: Plan
    broker: str
    database: str
    evidence: Evidence
    findings: list[str]
    settled_s: float | None
    notes: list[str] = field(default_factory=list)
    text: str = ""  # all that the workers have printed

    @property
    def command(self) -> str:
        """What does the same again."""
        return (
            f"python -m tests.chaos --seconds {self.plan.seconds:g} --seed {self.plan.seed} "
            f"--broker {self.broker} --database {self.database}"
        )


def chaos(
    seed: int,
    seconds: float,
    directory: Path,
    *,
    broker: str = "redis",
    database: str = "postgresql",
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Let runs come and things break for so long; then wait for the end of all runs, and compare.

    Args:
        directory: for what processes leave behind.
        tell: gets a line now and then.
    """
    plan = plan_of(seed, seconds)
    with servers(broker, database) as (queue, kept):
        settings = {
            "saga_lease": LEASE_S,
            "saga_sweep_interval": SWEEP_S,
            "saga_max_stalls": 40,
            "worker_log_format": LOG_FORMAT,
            "worker_task_log_format": LOG_FORMAT,
        }
        with world_with(broker, directory, broker_settings=queue.settings, database_url=kept.url, **settings) as world:
            return _Chaos(plan, world, kept, tell).run(queue, broker, database)


class _Chaos:
    def __init__(self, plan: Plan, world: World, database: Database, tell: Callable[[str], None]) -> None:
        self._plan, self._world, self._database, self._tell = plan, world, database, tell
        self._tables = gather.Tables(database.url)
        self._tables.execute(sagas.BOOKS)
        world.ledger(ledger.TABLE)
        self._pause = threading.Event()

    def run(self, queue: object, broker: str, database: str) -> Outcome:
        plan, world = self._plan, self._world
        hire = lambda: world.worker(modules=("tests.chaos.sagas",), concurrency=3)  # noqa: E731
        fleet = Fleet(SLOTS, hire)
        try:
            trouble = Trouble(plan.faults, fleet, queue, self._database)  # type: ignore[arg-type]
            customers = Customers(plan, self._live, MOST_LIVE)
            coming = threading.Thread(target=customers.run, daemon=True)
            coming.start()
            self._tell(f"{len(plan.arrivals)} runs and {len(plan.faults)} faults in {plan.seconds:g} s")
            trouble.run()
            coming.join(plan.seconds + SETTLE_S)
            # As docs/recovery.md says for a broker that has lost messages: with the queue never at rest, what was lost
            # several times would wait for up to a quarter of an hour.
            again = world.saga.redispatch(dry_run=False)
            settled_s = self._settle(trouble.over_at)
            loads = self._loads(settled_s is not None)
            trouble.close()
            fleet.close()
        except BaseException:
            fleet.kill()
            raise
        evidence = Evidence(
            trees={order: each.tree for order, each in customers.started.items()},
            cancelled=frozenset(customers.cancelled),
            rows=gather.rows(world),
            hits=trouble.hits,
            loads=(*loads, *(f"a customer met {error}" for error in customers.errors)),
            log=gather.bad_lines(world.started),
            lease_s=LEASE_S,
            troubles_over_at=trouble.over_at,
            **self._tables.evidence(),
        )
        notes = [
            *trouble.errors,
            *fleet.troubles,
            f"customers asked again {customers.refused} times",
            f"{len(again.wake_ups)} wake-ups were sent again when the trouble was over",
        ]
        text = "\n\n".join(f"== {worker.name}\n{worker.text}" for worker in world.started)
        return Outcome(plan, broker, database, evidence, check(evidence), settled_s, notes, text)

    def _live(self) -> int:
        with suppress(Exception):  # the database is away: nobody can be started either
            return self._tables.live()
        return 0

    def _settle(self, over_at: float) -> float | None:
        """Wait for the end of all runs."""
        until = over_at + SETTLE_S
        while time.time() < until:
            if self._tables.live() == 0:
                return time.time() - over_at
            self._pause.wait(0.1)
        return None

    def _loads(self, settled: bool) -> list[str]:
        """Messages and transactions that stay; a moment is given to those that go on their own."""
        found: list[str] = []
        until = time.time() + (15.0 if settled else 0.0)
        while True:
            found = [f"left open: a transaction {each}" for each in self._database.open_transactions()]
            with suppress(SagaError):
                depth = self._world.depth()
                found += [f"left open: {depth} messages in the broker"] if depth else []
            if not found or time.time() > until:
                return found
            self._pause.wait(0.2)
