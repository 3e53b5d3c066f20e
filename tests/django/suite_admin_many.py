"""What is done to many runs: filters that cannot be read, searches, and refusals; run by test_admin.py."""

from __future__ import annotations

import pytest
from bazaar import scenes, tasks
from django.contrib.auth.models import Permission, User
from django.test import Client
from proj import celery_app
from suite_admin import LIST, said, text

pytestmark = pytest.mark.django_db(transaction=True)
NOW = {"confirmed": "1", "reason": "x"}


@pytest.fixture(autouse=True)
def _calm() -> None:
    tasks.trouble.clear()


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client


@pytest.mark.parametrize(
    "asked",
    [
        "version=x",
        "version=99999999999",
        "attention=0",
        "within=2y",
        "since=soon",
        "until=9999-12-31T23:59",
        "status=x",
    ],
)
def test_a_filter_that_cannot_be_read_names_no_run(boss: Client, asked: str) -> None:
    waiting = scenes.asked()

    listed = boss.get(f"{LIST}?saga=checkout&{asked}")
    told = said(boss, f"{LIST}bulk/cancel/?saga=checkout&{asked}", NOW)

    assert listed.status_code == 200
    assert waiting[:8] not in text(listed)
    assert told.startswith("INVALID_ARGUMENT") and asked.partition("=")[0] in told
    assert celery_app.saga.get(waiting).status == "waiting"


def test_what_was_searched_for_is_not_all_that_the_filters_name(boss: Client) -> None:
    waiting, other = scenes.asked(), scenes.asked()

    listed = text(boss.get(f"{LIST}?saga=checkout&q={waiting}"))
    told = said(boss, f"{LIST}bulk/cancel/?saga=checkout&q={waiting}", NOW)

    assert waiting[:8] in listed and "these filters name" not in listed
    assert "these filters name" in text(boss.get(f"{LIST}?saga=checkout"))
    assert "pick the runs" in told
    assert celery_app.saga.get(other).status == "waiting"


def test_refusals_are_told_once_for_each_reason_and_briefly(boss: Client) -> None:
    parked, *others = scenes.parked(), scenes.asked(), scenes.asked()

    plan = text(boss.post(LIST, {"action": "resume_runs", "_selected_action": [parked, *others], "index": "0"}))
    told = said(boss, f"{LIST}bulk/resume/", {**NOW, "ids": [parked, *others]}).split(" | ")

    assert "resume is not allowed while the run is waiting" in plan and "nothing was changed." not in plan
    (refusals,) = (each for each in told if "ILLEGAL_TRANSITION" in each)
    assert refusals.count("resume is not allowed") == 1
    assert refusals.count("checkout ") == 2


def test_permissions_are_called_what_they_allow() -> None:
    named = dict(Permission.objects.filter(content_type__app_label="celery_saga").values_list("codename", "name"))

    assert named["view_payload"] == "Can view payloads of runs"
