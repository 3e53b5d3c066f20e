"""What is kept of a measurement: JSON with the versions and the machine, without its name."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import redis

from tests.bench.contestants.ours import plain
from tests.bench.measures.measure import Outcome
from tests.bench.rows import Row
from tests.servers import SERVERS

FORMAT = 1
DISTRIBUTIONS = (
    *("celery", "kombu", "redis", "SQLAlchemy", "psycopg2-binary", "psycopg"),
    *("dbos", "absurd-sdk"),
)


def keep(path: Path, name: str, outcome: Outcome, *, size: str, processes: int, load: float, took_s: float) -> None:
    """Write what one measure has found into a document; what others have found stays there.

    Args:
        load: how busy the machine was before, as the first of `os.getloadavg()`.
    """
    document = json.loads(path.read_text()) if path.exists() else {}
    document |= {"format": FORMAT, "versions": versions()}
    document.setdefault("measures", {})[name] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "size": size,
        "processes": processes,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "took_s": round(took_s),
        "rows": [row.as_json() for row in outcome.rows],
        "curves": outcome.curves,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def read(path: Path, order: Iterable[str] = ()) -> tuple[dict[str, Any], Outcome]:
    """A document, and the rows and curves in it; measures in the order that is given, then as they were kept."""
    document = json.loads(path.read_text())
    whole = Outcome([])
    for name in dict.fromkeys([*order, *document["measures"]]):
        found = document["measures"].get(name, {"rows": (), "curves": {}})
        whole.add(Outcome([Row.from_json(row) for row in found["rows"]], found["curves"]))
    return document, whole


def versions() -> dict[str, str]:
    """Of what takes part."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    connection = psycopg2.connect(plain(SERVERS["postgresql"].url))
    try:
        with connection.cursor() as cursor:
            for name in ("server_version", "synchronous_commit", "fsync"):
                cursor.execute(f"SHOW {name}")
                found[f"postgresql {name}"] = str(cursor.fetchone()[0]).partition(" ")[0]
    finally:
        connection.close()
    with redis.Redis.from_url(SERVERS["redis"].url) as client:
        found["redis server_version"] = str(client.info("server")["redis_version"])
    return found


def machine() -> dict[str, Any]:
    """Processors, memory, kernel."""
    words = Path("/proc/cpuinfo")
    models = [line for line in words.read_text().splitlines() if "model name" in line] if words.exists() else []
    return {
        "processors": psutil.cpu_count(),
        "model": models[0].partition(":")[2].strip() if models else platform.processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }
