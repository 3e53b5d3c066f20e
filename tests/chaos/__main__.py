"""`python -m tests.chaos --seconds 3600 --seed 7`: a chaos by hand, and its report."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.checker import check
from tests.chaos.evidence import Evidence
from tests.chaos.report import to_json, to_markdown
from tests.chaos.run import chaos


def main() -> int:
    """0: nothing found; 1: something was."""
    told = _arguments()
    if told.check is not None:
        findings = check(Evidence.load(told.check))
        print("\n".join(findings) or "nothing found")
        return 1 if findings else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # leave no server and no worker behind
    bad = 0
    for seed in range(told.seed, told.seed + told.seeds):
        with tempfile.TemporaryDirectory(prefix="saga-chaos-") as directory:
            outcome = chaos(seed, told.seconds, Path(directory), broker=told.broker, database=told.database, tell=print)
        print(to_markdown(outcome), flush=True)
        bad += bool(outcome.findings)
        if told.report is not None:
            told.report.mkdir(parents=True, exist_ok=True)
            name = f"chaos-{told.broker}-{told.database}-{seed}"
            (told.report / f"{name}.json").write_text(to_json(outcome))
            (told.report / f"{name}.md").write_text(to_markdown(outcome))
            if outcome.findings or told.evidence:
                outcome.evidence.save(told.report / f"{name}-evidence.json")
                (told.report / f"{name}.log").write_text(outcome.text)
    return 1 if bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=sys.modules[__name__].__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long things break (60)")
    parser.add_argument("--seed", type=int, default=1, help="decides the sagas and what breaks when (1)")
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds, one after the other (1)")
    parser.add_argument("--broker", choices=["redis", "rabbitmq"], default="redis")
    parser.add_argument("--database", choices=["postgresql", "mariadb"], default="postgresql")
    parser.add_argument("--report", type=Path, help="directory for reports, and the evidence of what was found")
    parser.add_argument("--evidence", action="store_true", help="keep the evidence also where nothing was found")
    parser.add_argument("--check", type=Path, metavar="EVIDENCE", help="no chaos: look at the evidence of one again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
