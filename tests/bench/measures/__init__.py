"""What is measured, by the names that `--only` takes, in the order of the table."""

from __future__ import annotations

from tests.bench.measures import flat, idle, latency, profile, recovery, sequences, startup
from tests.bench.measures.measure import Measure

MEASURES: dict[str, Measure] = {
    "broker": sequences.broker,
    "inline": sequences.inline,
    "result": latency.result,
    "signal": latency.signal,
    "timers": latency.timers,
    "inline-steps": flat.inline_steps,
    "old-runs": flat.old_runs,
    "map-items": flat.map_items,
    "broker-steps": flat.broker_steps,
    "sleepers": idle.sleepers,
    "child": recovery.child,
    "worker": recovery.worker,
    "imports": startup.imports,
    "start-up": startup.start_up,
    "workers": sequences.workers,
    "profile": profile.profile,
}
