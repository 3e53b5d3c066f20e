"""Checks of the installed versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES"]

CELERY_VERSION = Code(
    "CELERY_VERSION",
    Level.ERROR,
    "Celery {version} is installed; celery_saga works with 5.4 and later, below 6.",
    "Install celery>=5.4,<6.",
)


def celery_version(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Celery's own number, also of a pre-release."""
    match = re.match(r"(\d+)\.(\d+)", facts.celery_version)
    if match is None or not (5, 4) <= (int(match[1]), int(match[2])) < (6, 0):
        yield CELERY_VERSION.found(version=facts.celery_version)


CODES = (CELERY_VERSION,)
CHECKS = (celery_version,)
