"""A process that executes DBOS workflows from a queue: `python -m tests.bench.peers.dbos_worker`."""

from __future__ import annotations

import os
import threading

from dbos import DBOS, DBOSConfig

QUEUE = "work"
WORKFLOW = "sequence"
VERSION = "1"
CONCURRENCY = int(os.environ.get("BENCH_DBOS_CONCURRENCY", "20"))
"""Workflows at a time in one process; the best of those tried, see docs/performance.md."""
POLLING_S = float(os.environ.get("BENCH_DBOS_POLLING_S", "0.02"))


def config(url: str) -> DBOSConfig:
    """What processes and clients share; all else is as it comes."""
    return {"name": "bench", "system_database_url": url, "application_version": VERSION, "log_level": "ERROR"}


@DBOS.step()
def nothing() -> None:
    """As the task of the sagas."""


@DBOS.workflow(name=WORKFLOW)
def sequence(steps: int) -> None:
    """So many steps, one after the other."""
    for _ in range(steps):
        nothing()


def main() -> None:
    """Until it is killed."""
    DBOS(config=config(os.environ["BENCH_URL"]))
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLLING_S)
    print("ready.", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
