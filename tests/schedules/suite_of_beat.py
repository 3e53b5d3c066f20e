"""Schedules that are periodic tasks of django-celery-beat; for a process of its own, as it configures Django."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError

from tests.schedules import django_site  # noqa: F401 - configures Django
from tests.schedules.clockwork import BEGIN, Clockwork, make_app, note
from tests.schedules.contract import HOUR, MINUTE, ScheduleContract

# isort: split
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks

from celery_saga.errors import DefinitionError
from contrib_django.beat import BeatDriver, reconcile

LIST = "/admin/django_celery_beat/periodictask/"


class BeatClockwork(Clockwork):
    """Schedules that a beat wakes: it sends what is enabled, twice, whenever one of them has come."""

    driver = "beat"
    times = 2

    def __enter__(self) -> BeatClockwork:
        super().__enter__()
        self.book.find_driver = lambda: BeatDriver(self.lab.app)
        return self

    def advance(self, span: float | timedelta) -> None:
        """Time passes, and a beat does its work."""
        end = self.now + (span if isinstance(span, timedelta) else timedelta(seconds=span))
        last = self.now - timedelta(days=1)
        while times := [at for each in self.book.all() if (at := each.next_at) is not None and last < at <= end]:
            last = max(min(times), self.now)
            self.lab.advance(last - self.now)
            self.wake()
            self.lab.drain()
        self.lab.advance(end - self.now)

    def wake(self) -> None:
        """Send what is enabled, and again, as a broker may do."""
        for task in [*PeriodicTask.objects.filter(enabled=True), *PeriodicTask.objects.filter(enabled=True)]:
            self.lab.app.tasks[task.task].apply((), json.loads(task.kwargs), throw=True)


@pytest.fixture(scope="session", autouse=True)
def _tables() -> None:
    call_command("migrate", verbosity=0)


@pytest.fixture
def clock() -> Iterator[Clockwork]:
    with BeatClockwork(make_app()) as clock:
        yield clock
        for model in (PeriodicTask, CrontabSchedule, IntervalSchedule, ClockedSchedule, PeriodicTasks, User):
            model.objects.all().delete()


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    return client


def task(id_: str = "n") -> Any:
    """The periodic task of a schedule."""
    (found,) = (each for each in PeriodicTask.objects.all() if json.loads(each.kwargs).get("schedule") == id_)
    return found


class TestBeat(ScheduleContract):
    """With django-celery-beat."""


# -- what people see --------------------------------------------------------------------------------------------------
def test_a_schedule_is_a_periodic_task_without_its_arguments(clock: Clockwork) -> None:
    note.schedule("n", cron="*/20 2 * * mon", tz="Europe/Berlin", args=["secret"])
    note.schedule("often", every=300)
    note.schedule("once", at=BEGIN + HOUR)

    crontab = task().crontab
    assert (task().name, task().task, task().enabled) == ("schedules_note: n", "celery_saga.fire", True)
    assert json.loads(task().kwargs) == {"saga": "schedules_note", "schedule": "n"}
    assert [crontab.minute, crontab.hour, crontab.day_of_week, str(crontab.timezone)] == [
        *("*/20", "2", "mon", "Europe/Berlin")
    ]
    assert (task("often").interval.every, task("often").interval.period) == (5, "minutes")
    assert (task("once").clocked.clocked_time, task("once").one_off) == (BEGIN + HOUR, True)


@pytest.mark.parametrize(
    ("cron", "column"),
    [("0 3 * * 7", "0"), ("0 3 * * 5-7", "0,5,6"), ("0 3 * * MON-FRI", "MON-FRI"), ("0 3 * * *", "*")],
)
def test_what_the_two_write_otherwise_is_told_by_what_it_means(clock: Clockwork, cron: str, column: str) -> None:
    handle = note.schedule("n", cron=cron)
    before = handle.record
    assert task().crontab.day_of_week == column

    reconcile()

    assert handle.record == before


@pytest.mark.parametrize("cron", ["0 3 1 * 1", "0 3 L * *", "0 3 * * 1#2"])
def test_a_cron_that_a_crontab_cannot_say_is_refused_and_nothing_is_written(clock: Clockwork, cron: str) -> None:
    with pytest.raises(DefinitionError, match="PeriodicTask cannot show"):
        note.schedule("n", cron=cron)

    assert (clock.book.all(), PeriodicTask.objects.count()) == ([], 0)


def test_said_again_a_periodic_task_is_not_written_and_one_that_is_missing_is(clock: Clockwork) -> None:
    note.schedule("n", every=300)
    changed_at, first = PeriodicTasks.last_change(), task().pk

    note.schedule("n", every=300)
    same = (PeriodicTasks.last_change(), task().pk)
    PeriodicTask.objects.all()._raw_delete("default")
    note.schedule("n", every=300)

    assert same == (changed_at, first)
    assert task().pk != first


# -- what people change -----------------------------------------------------------------------------------------------
def test_another_crontab_is_another_pattern(clock: Clockwork) -> None:
    note.schedule("n", cron="0 3 * * *")
    clock.advance(24 * HOUR)
    row = task()
    row.crontab = CrontabSchedule.objects.create(minute="15", hour="4", timezone="Europe/Berlin")

    row.save()

    record = clock.record()
    assert (record.kind.value, record.pattern, record.tz) == ("cron", "15 4 * * *", "Europe/Berlin")
    assert record.next_at == datetime(2026, 3, 3, 4, 15, tzinfo=ZoneInfo("Europe/Berlin"))
    assert (record.last_fire_at, record.input) == (datetime(2026, 3, 2, 3, tzinfo=UTC), {})


def test_a_crontab_that_is_changed_changes_every_schedule_that_has_it(clock: Clockwork) -> None:
    note.schedule("a", cron="0 3 * * *")
    note.schedule("b", cron="0 3 * * *")
    (crontab,) = CrontabSchedule.objects.all()
    crontab.hour = "5"

    crontab.save()

    assert [each.pattern for each in clock.book.all()] == ["0 5 * * *"] * 2


def test_an_interval_takes_the_place_of_a_crontab(clock: Clockwork) -> None:
    note.schedule("n", cron="0 3 * * *")
    row = task()
    row.crontab, row.interval = None, IntervalSchedule.objects.create(every=10, period="minutes")

    row.save()
    clock.advance(15 * MINUTE)

    assert clock.told() == ["12:10 fired"]


def test_a_deleted_periodic_task_is_a_removed_schedule(clock: Clockwork) -> None:
    note.schedule("n", every=600)
    note.schedule("other", every=600)

    task().delete()

    assert [each.id for each in clock.book.all()] == ["other"]


def test_what_is_rolled_back_changes_nothing(clock: Clockwork) -> None:
    note.schedule("n", every=600)
    before = clock.record()

    with transaction.atomic():
        task().delete()
        transaction.set_rollback(True)
    with transaction.atomic():
        PeriodicTask.objects.filter(pk=task().pk).update(enabled=False)
        PeriodicTasks.update_changed()
        transaction.set_rollback(True)

    assert clock.record() == before


def test_a_periodic_task_that_people_make_is_a_new_schedule(clock: Clockwork) -> None:
    PeriodicTask.objects.create(
        name="by ann",
        task="celery_saga.fire",
        interval=IntervalSchedule.objects.create(every=10, period="minutes"),
        kwargs=json.dumps({"saga": "schedules_note", "args": ["hello"], "overlap": "allow"}),
    )

    clock.advance(10 * MINUTE)

    record = clock.record("by ann")
    assert (record.source, record.driver, record.overlap, record.input) == ("beat", "beat", "allow", {"text": "hello"})
    assert [run.result for run in clock.runs()] == ["hello 01 12:10:00"]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"kwargs": "{}"}, id="no saga"),
        pytest.param({"kwargs": "[1]"}, id="no mapping"),
        pytest.param({"kwargs": '{"saga": "nobody"}'}, id="an unknown saga"),
        pytest.param({"kwargs": '{"saga": "schedules_note", "args": [1, 2, 3]}'}, id="arguments that do not fit"),
        pytest.param({"kwargs": '{"saga": "schedules_note", "overlap": "some"}'}, id="no such overlap"),
        pytest.param({"kwargs": '{"saga": "schedules_note", "zz": 1}'}, id="an unknown word"),
        pytest.param({"start_time": BEGIN}, id="a start time"),
        pytest.param({"crontab": {"day_of_month": "1", "day_of_week": "1"}}, id="both days"),
    ],
)
def test_a_periodic_task_that_cannot_be_a_schedule_is_refused(clock: Clockwork, said: dict[str, Any]) -> None:
    crontab = CrontabSchedule.objects.create(**said.pop("crontab", {}))
    plain = {"name": "x", "task": "celery_saga.fire", "kwargs": '{"saga": "schedules_note"}', "crontab": crontab}

    with pytest.raises(ValidationError):
        PeriodicTask.objects.create(**{**plain, **said})

    assert (PeriodicTask.objects.count(), clock.book.all()) == (0, [])


def test_a_crontab_that_a_schedule_could_not_mean_is_refused(clock: Clockwork) -> None:
    note.schedule("n", cron="0 3 1 * *")
    (crontab,) = CrontabSchedule.objects.all()
    crontab.day_of_week = "1"

    with pytest.raises(ValidationError, match="Make it two schedules"):
        crontab.save()

    assert clock.record().pattern == "0 3 1 * *"


def test_actions_of_the_admin_pause_and_unpause_and_delete(clock: Clockwork, admin: Client) -> None:
    note.schedule("n", every=600)

    def act(action: str) -> None:
        words = {"action": action, "_selected_action": [str(task().pk)], "post": "yes"}
        assert admin.post(LIST, words).status_code == 302

    act("disable_tasks")
    paused = clock.record()
    clock.advance(25 * MINUTE)
    act("enable_tasks")
    clock.advance(10 * MINUTE)
    told = clock.told()
    act("delete_selected")

    assert (paused.paused, paused.pause_reason) == (True, "disabled as a periodic task")
    assert told == ["12:10-12:20 skipped paused 2", "12:30 fired"]
    assert clock.book.all() == []


def test_the_form_of_the_admin_changes_a_schedule(clock: Clockwork, admin: Client) -> None:
    note.schedule("n", every=600)
    interval = IntervalSchedule.objects.create(every=1, period="hours")
    row = task()
    form = {"name": "renamed", "regtask": "", "task": row.task, "enabled": "on", "interval": str(interval.pk)}
    form |= {"args": "[]", "kwargs": row.kwargs, "headers": "{}"}

    answer = admin.post(f"{LIST}{row.pk}/change/", form)

    assert answer.status_code == 302, answer.content.decode()[:4000]
    assert (task().name, clock.record().pattern) == ("renamed", "3600.0")
    note.schedule("n", every=600)
    assert (task().name, task().interval.every) == ("renamed", 10)


# -- what beats do ----------------------------------------------------------------------------------------------------
def test_a_beat_that_disables_what_it_has_sent_once_is_no_pause(clock: Clockwork) -> None:
    note.schedule("n", at=BEGIN + HOUR)
    clock.lab._clock.now += HOUR
    row = task()
    row.enabled = False

    row.save()  # before the message has come to a worker
    clock.lab.advance(60)

    assert clock.told() == ["13:00 fired"]
    assert not clock.record().paused


def test_when_no_beat_beats_the_sweeper_fires_after_a_grace(clock: Clockwork) -> None:
    note.schedule("n", every=600)

    clock.lab.advance(10 * MINUTE + timedelta(seconds=29))
    early = clock.told()
    clock.lab.advance(1)

    assert (early, clock.told()) == ([], ["12:10 fired"])
    assert [run.scheduled_for for run in clock.runs()] == [BEGIN + 10 * MINUTE]


def test_what_was_done_while_nobody_looked_is_found_when_a_worker_starts(clock: Clockwork) -> None:
    for id_ in ("a", "b"):
        note.schedule(id_, every=600)
    PeriodicTask.objects.filter(pk=task("a").pk).update(enabled=False)
    PeriodicTask.objects.filter(pk=task("b").pk)._raw_delete("default")

    reconcile()
    young = [(each.id, each.paused) for each in clock.book.all()]
    clock.lab._clock.now += timedelta(minutes=6)
    reconcile()

    assert young == [("a", True), ("b", False)]
    assert [each.id for each in clock.book.all()] == ["a"]
