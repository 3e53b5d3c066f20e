"""Shields: sections of a body that a cancel, or the deadline, waits for.

Theory of operation. Entering and leaving are marks; the run counts the shields that are held, those in parts too. What
comes meanwhile is kept on the run and applied in the transaction in which the last shield is left (`core.pending`). A
part that nobody waits for any more holds none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from celery_saga.core.focus import Extent, part_of, regions_around
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot

SHIELD = "shield"
"""Name and task of the mark at which a shield is entered."""
LEFT = "shield.left"
"""Name and task of the mark at which it is left."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits until the run holds no shield.

    `late`: the deadline has passed, and what is said of it; None: it is a cancel. `skip_undos`: a cancel without them.
    """

    late: str | None = None
    skip_undos: bool = False

    def to_text(self) -> str:
        """JSON."""
        return json.dumps([self.late, self.skip_undos])


def pending_of(run: RunRecord) -> Pending | None:
    """What waits until this run holds no shield; None: nothing."""
    return None if run.pending_text is None else Pending(*json.loads(run.pending_text))


def is_shielded(s: Snapshot) -> bool:
    """The run goes forward, or is parked, inside a shield."""
    return s.run.shields > 0 and s.is_live and s.run.outcome is None and not s.run.restart


def counted(s: Snapshot, orders: Iterable[Order]) -> Snapshot:
    """The run with the edges of shields counted that were placed just now."""
    change = sum(_edge(order.kind, order.task) for order in orders)
    return s.with_run(shields=max(0, s.run.shields + change)) if change else s


def recounted(s: Snapshot) -> Snapshot:
    """The run with the shields counted that are held now: parts that are over hold none."""
    if not s.run.shields:
        return s
    s.need(Extent.LIVE)
    return s.with_run(shields=held(s.steps))


def held(steps: Mapping[str, StepRecord]) -> int:
    """How many shields are open, by the marks among these steps; those of parts that are over are not."""
    return max(0, sum(_edge(x.kind, x.task) for x in steps.values() if x.kind is StepKind.MARK and _is_live(steps, x)))


def _edge(kind: StepKind, task: str) -> int:
    if kind is not StepKind.MARK:
        return 0
    return 1 if task == SHIELD else -1 if task == LEFT else 0


def _is_live(steps: Mapping[str, StepRecord], mark: StepRecord) -> bool:
    """No part around it is over."""
    around = (steps.get(part_of(region)) for region in regions_around(mark.scope)[1:])
    return all(part is not None and not part.status.is_end for part in around)
