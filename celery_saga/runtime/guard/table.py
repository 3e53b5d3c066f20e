"""The table of all checks and codes, and the walk through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Final, NamedTuple

from celery import Celery

from celery_saga.runtime.guard import (
    broker_any,
    broker_rabbitmq,
    broker_redis,
    database,
    engine,
    keys,
    pools,
    results,
    routing,
    schema,
    sqlite,
    tasks,
    versions,
)
from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES", "TOPICS", "Check", "Entry", "inspect"]

Check = Callable[[Celery, Facts], Iterable[Finding]]


class Entry(NamedTuple):
    """The fixed part of a code; places in braces are filled in for each finding."""

    level: Level
    sentence: str
    remedy: str


CHECK_FAILED = Code(
    "CHECK_FAILED",
    Level.WARNING,
    "The check {check} could not finish ({error}): what it looks for cannot be seen from here.",
    "Correct the setting that the error names; if there is none, report it.",
)

TOPICS: Final[tuple[tuple[str, ModuleType], ...]] = (
    ("Versions", versions),
    ("Broker", broker_any),
    ("Redis as broker", broker_redis),
    ("RabbitMQ as broker", broker_rabbitmq),
    ("Routing", routing),
    ("Tasks", tasks),
    ("Worker pools", pools),
    ("Results", results),
    ("Database", database),
    ("Tables", schema),
    ("Payloads", keys),
    ("Database engine", engine),
    ("SQLite", sqlite),
)
CHECKS: Final[tuple[Check, ...]] = tuple(check for _, topic in TOPICS for check in topic.CHECKS)
CODES: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        code.name: Entry(code.level, code.sentence, code.remedy)
        for code in (*(code for _, topic in TOPICS for code in topic.CODES), CHECK_FAILED)
    }
)
"""Every code that `inspect` can answer with, in the order of the topics."""

_ORDER = {Level.ERROR: 0, Level.WARNING: 1, Level.INFO: 2}


def inspect(app: Celery, facts: Facts) -> list[Finding]:
    """All findings for `facts`, errors first, else in the order of the topics.

    Touches no server and raises nothing: a check that fails is a finding itself.
    """
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(app, facts))
        except Exception as error:  # noqa: BLE001  recorded, and the other checks go on
            name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
            findings.append(CHECK_FAILED.found(check=name, error=repr(error)))
    return sorted(findings, key=lambda finding: _ORDER[finding.level])
