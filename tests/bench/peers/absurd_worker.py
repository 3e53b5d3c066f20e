"""A process that executes Absurd's tasks from a queue: `python -m tests.bench.peers.absurd_worker`."""

from __future__ import annotations

import os
from typing import Any

from absurd_sdk import Absurd

QUEUE = "work"
TASK = "sequence"
BATCH = int(os.environ.get("BENCH_ABSURD_BATCH", "10"))
"""Tasks claimed at once; a client has one connection, so more threads only wait for each other."""


def main() -> None:
    """Until it is killed."""
    client = Absurd(os.environ["BENCH_URL"], queue_name=QUEUE)

    @client.register_task(name=TASK)
    def sequence(params: Any, ctx: Any) -> None:
        for _ in range(params["steps"]):
            ctx.step("nothing", _nothing)

    print("ready.", flush=True)
    client.start_worker(
        concurrency=int(os.environ.get("BENCH_ABSURD_CONCURRENCY", "1")), batch_size=BATCH, poll_interval=0.01
    )


def _nothing() -> None:
    return None


if __name__ == "__main__":
    main()
