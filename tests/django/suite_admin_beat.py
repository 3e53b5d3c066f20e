"""What cannot be a schedule, in the admin of django-celery-beat; run by test_admin.py."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from proj import celery_app

pytestmark = pytest.mark.django_db(transaction=True)
TASKS = "/admin/django_celery_beat/periodictask/"
CRONTABS = "/admin/django_celery_beat/crontabschedule/"


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client


def form(**changed: str) -> dict[str, str]:
    hourly, _ = IntervalSchedule.objects.get_or_create(every=1, period="hours")
    said = {"name": "spring", "regtask": "", "task": "celery_saga.fire", "enabled": "on", "interval": str(hourly.pk)}
    kwargs = '{"saga": "labels", "schedule": "spring", "args": ["b", 1]}'
    return {**said, "args": "[]", "kwargs": kwargs, "headers": "{}", **changed}


REFUSED = {
    "no saga": ({"kwargs": "{}"}, "kwargs"),
    "an unknown saga": ({"kwargs": '{"saga": "nobody"}'}, "kwargs"),
    "arguments that do not fit": ({"kwargs": '{"saga": "labels", "args": [1, 2, 3]}'}, "kwargs"),
    "an unknown word": ({"kwargs": '{"saga": "labels", "args": ["b", 1], "zz": 1}'}, "kwargs"),
    "a start time": ({"start_time_0": "2030-01-01", "start_time_1": "00:00:00"}, "start_time"),
    "once, without a clocked time": ({"one_off": "on"}, "one_off"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_an_error_of_its_form(boss: Client, name: str) -> None:
    changed, field = REFUSED[name]

    answer = boss.post(f"{TASKS}add/", form(**changed))

    assert answer.status_code == 200
    errors: dict[str, Any] = answer.context["adminform"].form.errors
    assert list(errors) == [field] and "nothing was written" in str(errors)
    assert not PeriodicTask.objects.filter(name="spring").exists()


def test_what_can_be_one_is_saved_and_changed(boss: Client) -> None:
    assert boss.post(f"{TASKS}add/", form()).status_code == 302
    (schedule,) = celery_app.saga.services.engine.schedules.all()
    assert (schedule.saga, schedule.pattern) == ("labels", "3600.0")

    row = PeriodicTask.objects.get(name="spring")
    answer = boss.post(f"{TASKS}{row.pk}/change/", form(kwargs='{"saga": "nobody", "schedule": "spring"}'))

    assert answer.status_code == 200 and "nobody" in answer.content.decode()
    assert PeriodicTask.objects.get(name="spring").kwargs == row.kwargs


def test_a_schedule_has_one_periodic_task(boss: Client) -> None:
    boss.post(f"{TASKS}add/", form())

    answer = boss.post(f"{TASKS}add/", form(name="autumn"))

    assert answer.status_code == 200
    errors: dict[str, Any] = answer.context["adminform"].form.errors
    assert list(errors) == ["kwargs"] and "'spring' already shows it; nothing was written" in errors["kwargs"][0]
    assert not PeriodicTask.objects.filter(name="autumn").exists()
    row = PeriodicTask.objects.get(name="spring")
    assert boss.post(f"{TASKS}{row.pk}/change/", form(description="of spring")).status_code == 302


def test_a_change_that_makes_it_run_once_is_refused_too(boss: Client) -> None:
    boss.post(f"{TASKS}add/", form())
    row = PeriodicTask.objects.get(name="spring")

    answer = boss.post(f"{TASKS}{row.pk}/change/", form(one_off="on"))

    assert answer.status_code == 200 and list(answer.context["adminform"].form.errors) == ["one_off"]
    assert not PeriodicTask.objects.get(name="spring").one_off


def test_other_periodic_tasks_are_left_alone(boss: Client) -> None:
    assert boss.post(f"{TASKS}add/", form(task="bazaar.tasks.send_receipt", kwargs='{"order": "x"}')).status_code == 302


def test_a_crontab_that_a_schedule_could_not_mean_is_an_error_of_its_form(boss: Client) -> None:
    crontab = CrontabSchedule.objects.create(minute="0", hour="3", day_of_month="1")
    boss.post(f"{TASKS}add/", form(interval="", crontab=str(crontab.pk)))
    said = {name: getattr(crontab, name) for name in ("minute", "hour", "day_of_month", "month_of_year")}

    answer = boss.post(f"{CRONTABS}{crontab.pk}/change/", {**said, "day_of_week": "1", "timezone": "UTC"})

    assert answer.status_code == 200 and "Make it two schedules" in answer.content.decode()
    assert CrontabSchedule.objects.get().day_of_week == "*"
