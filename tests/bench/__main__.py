"""What sagas cost, beside what people would use instead: `python -m tests.bench`.

It needs PostgreSQL and Redis, and the extra `bench` for the peers and the plots. Every contestant has the same broker,
database and number of processes; figures are medians over repetitions in which each has its turn, ratios those of turns
side by side. docs/performance.md says more.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.bench import kept, table
from tests.bench.measures import MEASURES
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row
from tests.bench.sizes import SIZES
from tests.bytecode import keep_for_children
from tests.workers import ROOT


def main(words: list[str] | None = None) -> int:
    """Measure, print the table, and keep what is to be kept; 1: something could not be measured."""
    given = _asked(words)
    keep_for_children(ROOT / ".pytest_cache" / "bytecode")  # as where an application is installed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # no worker is left behind, frozen
    size = SIZES["quick" if given.quick else given.size]
    whole, failed = Outcome([]), False
    for name in given.only or MEASURES:
        load, begun_s = os.getloadavg()[0], time.perf_counter()
        print(f"== {name}", flush=True)
        try:
            found = MEASURES[name](Setting(size, given.processes, lambda line: print(f"   {line}", flush=True)))
        except Exception as error:  # the others are measured all the same
            traceback.print_exc()
            failed, found = True, Outcome([Row(name, None, None, None, f"{type(error).__name__}: {error}"[:100])])
        whole.add(found)
        took_s = time.perf_counter() - begun_s
        print(f"   {took_s:.0f} s", flush=True)
        if given.out:
            kept.keep(given.out, name, found, size=size.name, processes=given.processes, load=load, took_s=took_s)
    table.on_terminal(whole.rows)
    return int(failed)


def _asked(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="in under two minutes, with fewer repetitions")
    parser.add_argument("--size", choices=SIZES, default="full", help="tiny: only that everything can be measured")
    parser.add_argument("--only", choices=MEASURES, action="append", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--processes", type=int, default=2, help="that execute steps, of each contestant")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help="keep every reading; what it has of others stays",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
