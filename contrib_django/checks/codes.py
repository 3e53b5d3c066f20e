"""Every system check of ours: its id, the problem, and the remedy; places in braces are filled in for each finding."""

from __future__ import annotations

from typing import Final

from celery_saga.runtime.guard.finding import Code, Level

__all__ = ["CODES", "PREFIX", "Code"]

PREFIX: Final = "celery_saga."
"""In front of each id: `celery_saga.E001`, and of a code of the transport guard: `celery_saga.BROKER_UNREACHABLE`."""

NO_APP: Final = Code(
    "E001",
    Level.ERROR,
    "The project has imported no Celery app, so that no sagas could be added to one: in this process, none can start.",
    "Import the app where Django starts, in the project's `__init__.py`: `from .celery import app as celery_app`.",
)
BAD_SETTING: Final = Code(
    "E002",
    Level.ERROR,
    "A setting is out of range: {reason}",
    "Correct it; docs/settings lists all of them with their ranges.",
)
UNKNOWN_SETTING: Final = Code(
    "E003",
    Level.ERROR,
    "There is no setting {name}; nobody reads it.",
    "Correct its name{guess}, or remove it.",
)
BAD_DATABASE: Final = Code(
    "E004",
    Level.ERROR,
    "The saga database cannot be used: {reason}",
    "Name an alias of DATABASES in CELERY_SAGA_DATABASE, or a URL in CELERY_SAGA_DATABASE_URL.",
)
UNKNOWN_SAGA: Final = Code(
    "E005",
    Level.ERROR,
    "CELERY_SAGA_SAGAS names what is no saga: {reason}",
    "Give the dotted path of a saga, like 'shop.sagas.checkout'.",
)
BAD_SCHEDULE: Final = Code(
    "E006",
    Level.ERROR,
    "CELERY_SAGA_SCHEDULES[{name!r}] cannot be scheduled: {reason}",
    "Correct it; until then it is left as it was before.",
)
NO_DATABASE: Final = Code(
    "E007",
    Level.ERROR,
    "The saga database {where} cannot be reached: {reason}",
    "Create it, start its server, or correct DATABASES; then run `manage.py migrate{option}`.",
)
NOT_MIGRATED: Final = Code(
    "W001",
    Level.WARNING,
    "The saga tables in the database {where} are {state}: no run can be started, and none goes on.",
    "Run `{command}`.",
)
SQLITE: Final = Code(
    "W002",
    Level.WARNING,
    "Runs are kept in SQLite, and DEBUG is off: one process writes at a time, on one machine.",
    "Point CELERY_SAGA_DATABASE at PostgreSQL, MySQL or MariaDB.",
)
NO_BEAT: Final = Code(
    "W003",
    Level.WARNING,
    "CELERY_SAGA_SCHEDULES has schedules and django_celery_beat is not installed: they are fired by the workers' "
    "sweepers alone, and nobody sees or edits them in the admin.",
    "Add 'django_celery_beat' to INSTALLED_APPS, or silence this check.",
)
OTHER_SCHEDULER: Final = Code(
    "W004",
    Level.WARNING,
    "Schedules are periodic tasks of django-celery-beat, and CELERY_BEAT_SCHEDULER is {scheduler!r}: a beat that is "
    "started without --scheduler does not know them, and a sweeper fires each 30 s late.",
    "Set CELERY_BEAT_SCHEDULER = 'django_celery_beat.schedulers:DatabaseScheduler'.",
)
ATOMIC_ELSEWHERE: Final = Code(
    "W005",
    Level.WARNING,
    "Requests run in transactions of {aliases} (ATOMIC_REQUESTS), and runs are kept in {where}: what starts in a "
    "request does not commit and roll back with it.",
    "Set CELERY_SAGA_DATABASE to {aliases}, or start runs in transaction.atomic(using=...) of the saga database.",
)
STEPS_ELSEWHERE: Final = Code(
    "W006",
    Level.WARNING,
    "The saga {saga} has transactional steps, and models of {app} are written to {alias!r}, while runs are kept in "
    "{where}: what such a step writes there does not commit with its checkpoint, and may happen twice.",
    "Keep runs in the database of these models: CELERY_SAGA_DATABASE = {alias!r}.",
)

CODES: Final = (
    NO_APP,
    BAD_SETTING,
    UNKNOWN_SETTING,
    BAD_DATABASE,
    UNKNOWN_SAGA,
    BAD_SCHEDULE,
    NO_DATABASE,
    NOT_MIGRATED,
    SQLITE,
    NO_BEAT,
    OTHER_SCHEDULER,
    ATOMIC_ELSEWHERE,
    STEPS_ELSEWHERE,
)
