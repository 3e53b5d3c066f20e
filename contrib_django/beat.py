"""Schedules as periodic tasks of django-celery-beat, which people see and edit in its admin, and which its beat wakes.

A beat only wakes: which nominal times there are is said by the schedule's own row, under its lock. What people change
in the admin, by a form or by an action on many, touches the row that django-celery-beat keeps for its beat, and so
comes here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from django.core.exceptions import ValidationError
from django.db import connections, transaction
from django.db.models import signals
from django.utils.timezone import is_naive, make_aware
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
)

from celery_saga.client import binding
from celery_saga.core.schedules import PatternKind, ScheduleRecord, Wanted
from celery_saga.definition.scheduling import wanted as said_by
from celery_saga.engine.schedules import ScheduleBook
from celery_saga.errors import DefinitionError, SagaError, SchemaOutdated, StoreUnavailable, UnknownSaga
from celery_saga.runtime.drivers import use_driver
from celery_saga.runtime.names import FIRE
from contrib_django.patterns import FIELDS, cron_fields, expression_of, interval_of, seconds_of

__all__ = ["BeatDriver", "connect", "reconcile", "refusal_of", "refusal_of_crontab"]

logger = logging.getLogger("celery_saga.schedules")

_NAME_LENGTH = 200
_FORGOTTEN_AFTER = timedelta(minutes=5)
"""A schedule without its periodic task is removed when it is older: a younger one may be about to get it."""
_SAID = ("crontab_id", "interval_id", "clocked_id", "kwargs", "start_time", "one_off")
"""What people say of a periodic task, and no beat changes."""
_WORDS = ("args", "kwargs", "overlap", "catch_up")
_ours: ContextVar[bool] = ContextVar("celery_saga_writes_periodic_tasks", default=False)


class BeatDriver:
    """Shows schedules as periodic tasks.

    Args:
        app: whose schedules they are.
    """

    name = "beat"

    def __init__(self, app: Celery) -> None:
        self._app = app

    def check(self, wanted: Wanted) -> None:
        """Refuse a cron expression that a CrontabSchedule cannot say. DefinitionError: nothing was written."""
        if wanted.kind is PatternKind.CRON:
            cron_fields(wanted.pattern)

    def put(self, wanted: Wanted, *, paused: bool) -> None:
        """Write the periodic task, unless it says the same already."""
        with _writing():
            task = _task_of(wanted.saga, wanted.id) or PeriodicTask(
                name=_name(wanted), kwargs=json.dumps({"saga": wanted.saga, "schedule": wanted.id}), task=FIRE
            )
            task.queue = task.queue or self._app.conf.get("saga_queue")
            before = _shown(task)
            _show(task, wanted)
            task.enabled = not paused
            if task.pk is None or _shown(task) != before:
                task.save()

    def pause(self, saga: str, id_: str, *, paused: bool) -> None:
        """Disable or enable the periodic task."""
        with _writing():
            task = _task_of(saga, id_)
            if task is not None and task.enabled is paused:
                task.enabled = not paused
                task.save()

    def remove(self, saga: str, id_: str) -> None:
        """Delete the periodic task."""
        with _writing():
            task = _task_of(saga, id_)
            if task is not None:
                task.delete()

    def reconcile(self) -> None:
        """Write to the schedules what people have done to periodic tasks while nobody looked."""
        reconcile()

    def let_go(self) -> None:
        """Close this thread's connections of Django's."""
        connections.close_all()


def connect() -> None:
    """Let periodic tasks show schedules in this process, and their changes change them."""
    use_driver(BeatDriver)
    signals.pre_save.connect(_before_save, sender=PeriodicTask, dispatch_uid="celery_saga.periodic_task")
    signals.pre_save.connect(_before_crontab, sender=CrontabSchedule, dispatch_uid="celery_saga.crontab")
    signals.post_save.connect(_on_change, sender=PeriodicTasks, dispatch_uid="celery_saga.periodic_tasks")
    signals.post_delete.connect(_on_delete, sender=PeriodicTask, dispatch_uid="celery_saga.deleted")


def reconcile() -> None:
    """Make the schedules that periodic tasks show what those say now.

    Their pattern and whether they are enabled are taken over. One that people have made is a new schedule. What cannot
    be taken over is told in the log, and the schedule is left as it was.
    """
    book = binding.current().engine.schedules
    now = book.now()
    there = {(each.saga, each.id): each for each in book.all()}
    seen = set()
    for task in PeriodicTask.objects.filter(task=FIRE).select_related("crontab", "interval", "clocked"):
        try:
            saga, id_ = _named(task)
            seen.add((saga, id_))
            _take_over(book, task, there.get((saga, id_)), saga, id_, now)
        except SagaError as error:
            logger.error("the periodic task %r shows a schedule that is left as it was: %s", task.name, error)
    for name, each in there.items():
        if each.driver == "beat" and name not in seen and now - each.updated_at > _FORGOTTEN_AFTER:
            book.remove(*name, shown=True)


def _take_over(book: ScheduleBook, task: Any, there: ScheduleRecord | None, saga: str, id_: str, now: datetime) -> None:
    wanted = _wanted(book, task, there, saga, id_)
    record, _ = book.put(wanted, shown=True)
    over = record.kind is PatternKind.AT and record.next_at is not None and record.next_at <= now
    if record.paused is task.enabled and record.next_at is not None and not over:
        # Beat disables what is to run once as soon as it has sent it: that is no pause.
        if task.enabled:
            book.unpause(saga, id_, shown=True)
        else:
            book.pause(saga, id_, reason="disabled as a periodic task", shown=True)


def _wanted(book: ScheduleBook, task: Any, there: ScheduleRecord | None, saga: str, id_: str) -> Wanted:
    """What a periodic task says of its schedule.

    Raises:
        DefinitionError, InvalidPayload, UnknownSaga: it cannot be one; nothing was written.
    """
    if task.start_time is not None:
        raise DefinitionError(
            f"schedule {id_!r} of saga {saga!r}: a start time of a periodic task would only keep beat from waking it; "
            "nothing was written. Enable it when it is to start."
        )
    if task.one_off and task.clocked is None:
        raise DefinitionError(
            f"schedule {id_!r} of saga {saga!r}: beat disables a one-off task once it has looked at it, which "
            "pauses the schedule; nothing was written. Give it a clocked time."
        )
    pattern = _pattern(task)
    given = _kwargs(task)
    unknown = sorted(given.keys() - {"saga", "schedule", *_WORDS})
    if unknown:
        raise DefinitionError(
            f"schedule {id_!r} of saga {saga!r}: the periodic task's keyword arguments have the unknown word "
            f"{unknown[0]!r}; nothing was written. There are saga, schedule, {', '.join(_WORDS)}; arguments of the run "
            "go into args or kwargs."
        )
    words = {word: given[word] for word in _WORDS if word in given}
    if there is not None and not words:
        same = _shows(task, there)
        kept = replace(there.says, driver="beat")
        return kept if same else replace(kept, **_read(pattern))
    found = _saga(saga)
    return replace(said_by(found, id_, {**pattern, **words}, book, source="beat"), driver="beat")


def _read(pattern: dict[str, Any]) -> dict[str, Any]:
    (kind,) = (kind for kind in PatternKind if kind.value in pattern)
    value = pattern[kind.value]
    text = value.isoformat() if kind is PatternKind.AT else repr(value) if kind is PatternKind.EVERY else value
    return {"kind": kind, "pattern": text, "tz": pattern.get("tz", "UTC")}


def _pattern(task: Any) -> dict[str, Any]:
    """Words of `Saga.schedule` for when a periodic task is sent."""
    if task.crontab is not None:
        fields = {name: getattr(task.crontab, name) for name in FIELDS}
        return {"cron": expression_of(fields), "tz": str(task.crontab.timezone)}
    if task.interval is not None:
        return {"every": seconds_of(task.interval.every, task.interval.period)}
    if task.clocked is not None:
        return {"at": _aware(task.clocked.clocked_time)}
    raise DefinitionError(
        f"the periodic task {task.name!r} has neither a crontab, an interval nor a clocked time; nothing was written."
    )


def _shows(task: Any, there: ScheduleRecord) -> bool:
    """Whether the periodic task is as we would write it for the schedule: by what it means."""
    if task.crontab is not None and there.kind is PatternKind.CRON:
        fields = {name: getattr(task.crontab, name) for name in FIELDS}
        return cron_fields(there.pattern) == fields and str(task.crontab.timezone) == there.tz
    if task.interval is not None and there.kind is PatternKind.EVERY:
        return seconds_of(task.interval.every, task.interval.period) == float(there.pattern)
    if task.clocked is not None and there.kind is PatternKind.AT:
        return bool(_aware(task.clocked.clocked_time) == datetime.fromisoformat(there.pattern))
    return False


def _show(task: Any, wanted: Wanted) -> None:
    task.crontab = task.interval = task.clocked = task.solar = None
    task.one_off = wanted.kind is PatternKind.AT
    if wanted.kind is PatternKind.CRON:
        task.crontab = _row(CrontabSchedule, **cron_fields(wanted.pattern), timezone=wanted.tz)
    elif wanted.kind is PatternKind.EVERY:
        every, period = interval_of(float(wanted.pattern))
        task.interval = _row(IntervalSchedule, every=every, period=period)
    else:
        task.clocked = _row(ClockedSchedule, clocked_time=datetime.fromisoformat(wanted.pattern))


def _row(model: Any, **columns: Any) -> Any:
    """A row with these values, perhaps shared with other tasks; never one that is changed."""
    return model.objects.filter(**columns).first() or model.objects.create(**columns)


def _shown(task: Any) -> tuple[Any, ...]:
    return (task.crontab_id, task.interval_id, task.clocked_id, task.solar_id, task.one_off, task.enabled)


def _task_of(saga: str, id_: str, *, other_than: int | None = None) -> Any:
    for task in PeriodicTask.objects.filter(task=FIRE).exclude(pk=other_than):
        given = _kwargs(task)
        if (given.get("saga"), given.get("schedule")) == (saga, id_):
            return task
    return None


def _named(task: Any) -> tuple[str, str]:
    """Saga and id of the schedule that a periodic task shows; without an id its name is that."""
    given = _kwargs(task)
    if not isinstance(given.get("saga"), str):
        raise DefinitionError(
            f"the periodic task {task.name!r} needs keyword arguments like "
            f'{{"saga": "report", "schedule": "nightly"}}, got {task.kwargs!r}; nothing was written.'
        )
    if "schedule" not in given and task.pk is not None:
        task.kwargs = json.dumps({**given, "schedule": task.name})
        with _writing():
            task.save()
    return given["saga"], str(given.get("schedule", task.name))


def _kwargs(task: Any) -> dict[str, Any]:
    try:
        found = json.loads(task.kwargs or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _saga(name: str) -> Any:
    bound: Any = binding.current()
    found = bound.registry.latest(name)
    if found is None:  # as in a web process, which has not imported the tasks
        bound.app.loader.import_default_modules()
        found = bound.registry.latest(name)
    if found is None:
        raise UnknownSaga(f"the app knows no saga {name!r}; nothing was written")
    return found


def _name(wanted: Wanted) -> str:
    name = f"{wanted.saga}: {wanted.id}"
    return name if len(name) <= _NAME_LENGTH else f"{wanted.saga[:70]}...: {wanted.id}"


def _aware(at: datetime) -> datetime:
    return (make_aware(at) if is_naive(at) else at).astimezone(UTC)


# -- what Django tells ----------------------------------------------------------------------------------------------
@contextmanager
def _writing() -> Iterator[None]:
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def refusal_of(task: Any) -> SagaError | None:
    """Why a periodic task cannot be saved as a schedule; None: it can, or is none, or the database is away."""
    if task.task != FIRE or _says_the_same(task):
        return None
    try:
        saga, id_ = _named_only(task)
        _refuse_second(task, saga, id_)
        book = binding.current().engine.schedules
        there = next((each for each in book.all() if (each.saga, each.id) == (saga, id_)), None)
        _wanted(book, task, there, saga, id_)
    except (StoreUnavailable, SchemaOutdated):
        return None  # it is looked at when the database answers
    except SagaError as error:
        return error
    return None


def _refuse_second(task: Any, saga: str, id_: str) -> None:
    other = _task_of(saga, id_, other_than=task.pk)
    if other is not None:
        raise DefinitionError(
            f"schedule {id_!r} of saga {saga!r}: the periodic task {other.name!r} already shows it; nothing was "
            'written. Change that one, or give another "schedule" in the keyword arguments.'
        )


def _before_save(instance: Any, raw: bool = False, **_: Any) -> None:
    """Refuse a periodic task that cannot show a schedule, as its own model refuses what it cannot be."""
    refusal = None if raw or _ours.get() else refusal_of(instance)
    if refusal is not None:
        raise ValidationError(str(refusal)) from refusal


def _says_the_same(task: Any) -> bool:
    """As when a beat writes when it has sent it: that is nobody's wish, and a beat need not know the saga database."""
    said = {name: getattr(task, name) for name in _SAID}
    return task.pk is not None and PeriodicTask.objects.filter(pk=task.pk, task=FIRE, **said).exists()


def _named_only(task: Any) -> tuple[str, str]:
    given = _kwargs(task)
    if not isinstance(given.get("saga"), str):
        return _named(task)
    return given["saga"], str(given.get("schedule", task.name))


def refusal_of_crontab(crontab: Any) -> SagaError | None:
    """Why a crontab that one of our periodic tasks has cannot be saved as it is now: no schedule could mean it."""
    if crontab.pk is None or not PeriodicTask.objects.filter(task=FIRE, crontab=crontab).exists():
        return None
    try:
        expression_of({name: getattr(crontab, name) for name in FIELDS})
    except SagaError as error:
        return error
    return None


def _before_crontab(instance: Any, raw: bool = False, **_: Any) -> None:
    """Refuse a change of a crontab that one of our periodic tasks has, and that a schedule cannot mean."""
    refusal = None if raw or _ours.get() else refusal_of_crontab(instance)
    if refusal is not None:
        raise ValidationError(str(refusal)) from refusal


def _on_change(using: str | None = None, raw: bool = False, **_: Any) -> None:
    if not raw and not _ours.get():
        transaction.on_commit(_reconcile_now, using=using)


def _reconcile_now() -> None:
    try:
        reconcile()
    except SagaError as error:
        # The admin has committed: the next change, or the next worker that starts, makes up for it.
        logger.error("what was changed of periodic tasks is not yet written to their schedules: %s", error)


def _on_delete(instance: Any, using: str | None = None, **_: Any) -> None:
    given = _kwargs(instance)
    if _ours.get() or instance.task != FIRE or not isinstance(given.get("saga"), str):
        return

    def remove() -> None:
        try:
            name = str(given.get("schedule", instance.name))
            binding.current().engine.schedules.remove(given["saga"], name, shown=True)
        except SagaError as error:
            logger.error("the schedule of the periodic task %r is not yet removed: %s", instance.name, error)

    transaction.on_commit(remove, using=using)
