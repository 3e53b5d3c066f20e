"""Starts and signals by forms made of what sagas declare; run by test_admin.py."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from bazaar import scenes, tasks
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from proj import celery_app
from suite_admin import LIST, do, person, text

from contrib_django.admin.schema_form import SchemaForm
from contrib_django.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
ORDER = {
    "order.id": "C-1",
    "order.cents": "4200",
    "order.address": "Long Lane 5",
    "order.shipping": "1",
    "gift": "true",
}


@pytest.fixture(autouse=True)
def _calm() -> None:
    tasks.trouble.clear()


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client


def start(client: Client, saga: str, data: dict[str, Any]) -> Any:
    return client.post(f"{LIST}start/{saga}/", data)


def test_a_start_asks_for_what_the_body_takes(boss: Client) -> None:
    shown = boss.get(f"{LIST}start/checkout/").content.decode()

    for name in ORDER:
        assert f'name="{name}"' in shown
    assert "Price in cents." in shown and "express" in shown
    assert "Sell an order" in text(boss.get(f"{LIST}start/"))


def test_a_run_is_started_with_typed_values_and_recorded(boss: Client) -> None:
    response = start(boss, "checkout", {**ORDER, "run-key": "C-1-again"})

    run = Run.objects.get()
    assert response.headers["Location"].endswith(f"{run.id}/change/")
    assert (run.key, run.status) == ("C-1-again", "completed")
    given = celery_app.saga.engine.run_of(run.id).input
    assert given["gift"] is True and given["order"]["cents"] == 4200 and given["order"]["shipping"] == "express"
    assert (LogEntry.objects.get().object_id, LogEntry.objects.get().action_flag) == (run.id, ADDITION)

    again = boss.post(f"{LIST}start/checkout/", {**ORDER, "run-key": "C-1-again"}, follow=True)
    assert "nothing was started" in text(again)
    other = start(boss, "checkout", {**ORDER, "order.cents": "1", "run-key": "C-1-again"})
    assert "IDEMPOTENCY_CONFLICT" in text(other)
    assert Run.objects.count() == 1


def test_every_kind_of_parameter(boss: Client) -> None:
    form = {
        "account": "m-7",
        "month": "2026-05-01",
        "amount": "10.10",
        "currency": "2",
        "urgent": "",
        "lines": '[{"a": 1}]',
    }

    start(boss, "payout", form)

    run = Run.objects.get()
    args, kwargs = celery_app.saga.registry.latest("payout").payload.decode(
        celery_app.saga.engine.run_of(run.id).input_text
    )
    given = dict(zip(("account", "month", "amount", "currency"), args, strict=False)) | kwargs
    assert (given["month"], given["amount"], given["currency"]) == (date(2026, 5, 1), Decimal("10.10"), "JPY")
    assert run.key == "2026-05-01-m-7"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"order.cents": "0"}, "order.cents"),
        ({"order.cents": "many"}, "order.cents"),
        ({"order.id": ""}, "order.id"),
        ({"order.id": "x" * 41}, "order.id"),
        ({"run-delay": "-1"}, "run-delay"),
        ({"gift": "perhaps"}, "gift"),
    ],
)
def test_errors_stand_at_their_fields_and_nothing_is_started(boss: Client, changed: dict[str, str], field: str) -> None:
    response = start(boss, "checkout", {**ORDER, **changed})

    assert list(response.context["form"].errors) == [field]
    assert not Run.objects.exists()


def test_what_only_the_saga_refuses_stands_at_its_field_too(boss: Client) -> None:
    response = start(boss, "payout", {"account": "a", "month": "2026-02-31", "amount": "1", "lines": '[{"a": "x"}]'})

    assert {"month", "lines"} & set(response.context["form"].errors)
    assert not Run.objects.exists()


def test_a_start_needs_its_permission() -> None:
    ann = person("view_run")

    assert ann.get(f"{LIST}start/").status_code == 403
    assert start(ann, "checkout", ORDER).status_code == 403
    assert not Run.objects.exists()


def test_there_is_no_form_of_an_unknown_saga(boss: Client) -> None:
    assert boss.get(f"{LIST}start/nobody/").status_code == 404


# -- signals ---------------------------------------------------------------------------------------------------------
def test_a_signal_is_sent_by_the_form_of_its_type(boss: Client) -> None:
    run_id = scenes.asked()
    shown = boss.get(do(run_id, "signal")).content.decode()
    assert 'name="value.approved"' in shown and 'name="value.limit"' in shown

    bad = boss.post(do(run_id, "signal"), {"value.approved": "on", "value.limit": "-1"})
    assert list(bad.context["form"].errors) == ["value.limit"]
    assert celery_app.saga.get(run_id).status == "waiting"

    boss.post(do(run_id, "signal"), {"value.approved": "on", "value.limit": "300000", "signal_id": "s1"})

    assert celery_app.saga.get(run_id).status == "completed"
    (signal,) = celery_app.saga.store.signals(run_id)
    assert (signal.name, signal.signal_id) == ("approval", "s1")
    assert "approval" in LogEntry.objects.get().change_message


def test_another_declared_signal_is_chosen_by_its_name(boss: Client) -> None:
    run_id = scenes.asked()

    response = boss.post(do(run_id, "signal", "?signal=restocked"), {"value": "7"}, follow=True)

    assert "It is kept until a wait takes it" in text(response)
    assert [each.name for each in celery_app.saga.store.signals(run_id)] == ["restocked"]


def test_a_refused_signal_is_a_message_with_its_code(boss: Client) -> None:
    run_id = scenes.done()

    response = boss.post(do(run_id, "signal"), {"value.approved": "on", "value.limit": "1"}, follow=True)

    assert "SIGNAL_EXPIRED" in text(response)


def test_a_saga_without_declared_signals_is_sent_any_name(boss: Client) -> None:
    run_id = scenes.parked()

    boss.post(do(run_id, "signal"), {"signal_name": "hello", "value": '{"a": [1]}'})

    (signal,) = celery_app.saga.store.signals(run_id)
    assert (signal.name, signal.value_text) == ("hello", '{"a":[1]}')


# -- schemas ---------------------------------------------------------------------------------------------------------
def filled(schema: dict[str, Any], data: dict[str, str]) -> Any:
    form = SchemaForm({"type": "object", **schema}, data)
    assert form.is_valid(), form.errors
    return form.payload


def test_what_is_left_empty_is_not_given_and_null_only_where_it_may_be() -> None:
    text_or_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    both = {"properties": {"a": text_or_null, "b": text_or_null}, "required": ["a"]}

    assert filled(both, {"a": "", "b": ""}) == {"a": None}
    assert filled({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}) == {"a": ""}
    assert filled({"properties": {"a": {}}, "required": ["a"]}, {"a": "null"}) == {"a": None}
    assert not SchemaForm({"properties": {"a": {}}, "required": ["a"]}, {"a": " "}).is_valid()
    assert filled({"properties": {"a": {"enum": [1, None, "x"]}}, "required": ["a"]}, {"a": "1"}) == {"a": None}


def test_json_that_means_two_things_is_refused() -> None:
    form = SchemaForm({"properties": {"a": {"type": "object"}}}, {"a": '{"x": 1, "x": 2}'})

    assert not form.is_valid() and "twice" in str(form.errors)


@pytest.mark.parametrize("days", ["0", "99999999999", "1e300"])
def test_an_age_that_cannot_be_purged_stands_at_its_field(boss: Client, days: str) -> None:
    answer = boss.post("/admin/celery_saga/run/purge/", {"older_than_days": days})

    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == ["older_than_days"]
    assert "timedelta" not in str(answer.context["form"].errors)


def test_a_page_of_the_desk_that_is_refused_does_not_say_that_nothing_is_there(boss: Client) -> None:
    scenes.stuck()

    refused = boss.get("/admin/celery_saga/run/desk/?after=nonsense").content.decode()
    other = boss.get("/admin/celery_saga/run/desk/?saga=labels").content.decode()

    assert "INVALID_ARGUMENT" in refused and "Nothing needs a person" not in refused
    assert "Nothing of labels needs a person." in other


def test_a_run_that_begins_later_says_when(boss: Client) -> None:
    answer = start(boss, "checkout", {**ORDER, "run-delay": "86400"})
    run = Run.objects.get()

    seen = text(boss.get(answer.headers["Location"]))

    assert run.not_before_at is not None
    begins = timezone.localtime(run.not_before_at)
    assert f"Begins{begins:%Y-%m-%d%H:%M:%S}" in re.sub(r"\s", "", seen)
