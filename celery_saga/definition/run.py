"""What a body gets as its first argument: each call is recorded, and answered from the record in a replay."""

from __future__ import annotations

from celery_saga.core.asked import known_as
from celery_saga.definition.verbs.changes import Changes
from celery_saga.definition.verbs.children import Children
from celery_saga.definition.verbs.joins import Joins
from celery_saga.definition.verbs.sections import Sections
from celery_saga.definition.verbs.signals import Signals
from celery_saga.definition.verbs.steps import Steps
from celery_saga.definition.verbs.values import Values
from celery_saga.definition.verbs.waiting import RAISE, Waiting

__all__ = ["RAISE", "Run"]


@known_as
class Run(Steps, Joins, Children, Sections, Waiting, Signals, Values, Changes):
    """One run, as its body sees it.

    The body is replayed from its top whenever something it waits for has come: each call returns what is recorded, or
    orders something new and leaves the body by an exception that is no `Exception`. Code between the calls must
    therefore do the same each time; `now`, `uuid`, `random` and `record` help.
    """
