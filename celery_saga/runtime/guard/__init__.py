"""The transport guard: finds dangerous combinations of broker, database, pool and settings.

`gather` reads the app and asks the servers, bounded in time; `inspect` looks at what was
gathered and names what it found by stable codes, which docs/checks.md lists.
"""

from __future__ import annotations

from celery_saga.runtime.guard.facts import Asks, Facts, Role, SchemaState
from celery_saga.runtime.guard.finding import Finding, Level
from celery_saga.runtime.guard.gather import gather
from celery_saga.runtime.guard.table import CODES, inspect

# asking
__all__ = ["Asks", "Facts", "Role", "SchemaState", "gather"]
# answering
__all__ += ["CODES", "Finding", "Level", "inspect"]
