"""Runs in the admin, as people see them and act on them; run by test_admin.py."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from bazaar import scenes, tasks
from bazaar.sagas import checkout, labels
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from proj import celery_app

from celery_saga.core.masking import PREFIX
from celery_saga.engine.looking import looking
from contrib_django.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/celery_saga/run/"


@pytest.fixture(autouse=True)
def _calm() -> None:
    tasks.trouble.clear()


def person(*permissions: str) -> Client:
    """Ann of the staff, who may do these things."""
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return _logged_in(user)


@pytest.fixture
def boss() -> Client:
    """Who may everything."""
    return _logged_in(User.objects.create_superuser("boss"))


def _logged_in(user: User) -> Client:
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


def page(run_id: str) -> str:
    return f"{LIST}{run_id}/change/"


def do(run_id: str, verb: str, query: str = "") -> str:
    return f"{LIST}{run_id}/do/{verb}/{query}"


def text(response: Any) -> str:
    """What a person reads."""
    assert response.status_code == 200, (response.status_code, response.headers)
    return unescape(re.sub(r"<[^>]+>", "", response.content.decode()))


def said(client: Client, path: str, data: dict[str, Any]) -> str:
    """What the messages say after something was done."""
    response = client.post(path, data, follow=True)
    return " | ".join(str(message) for message in response.context["messages"])


def statements(client: Client, path: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return [row["sql"] for row in captured.captured_queries]


# -- the list --------------------------------------------------------------------------------------------------------
def test_the_list_counts_nothing_and_reads_no_payload(boss: Client) -> None:
    scenes.play()

    asked = statements(boss, LIST)

    assert not [sql for sql in asked if "COUNT(" in sql.upper() and "saga_run" in sql]
    assert not [sql for sql in asked if "input_text" in sql or "result_text" in sql]
    assert len([sql for sql in asked if "saga_run" in sql]) == 2, "one for the page, one for the desk's count"


def test_the_number_of_statements_does_not_grow_with_the_runs(boss: Client) -> None:
    labels.start("a", 0)
    few = len(statements(boss, LIST))
    scenes.multiplied(20)

    assert len(statements(boss, LIST)) == few


def test_pages_hold_each_run_once_whatever_is_started_meanwhile(boss: Client) -> None:
    scenes.multiplied(205)
    seen: list[str] = []
    path = LIST
    while path:
        response = boss.get(path)
        seen += re.findall(r'saga-key">(k\d+)<', response.content.decode())
        labels.start(f"late{len(seen)}", 0)
        found = re.search(r'href="(\?[^"]*after=[^"]*)">older', response.content.decode())
        path = LIST + unescape(found[1]) if found else ""

    assert seen == [f"k{number:03}" for number in reversed(range(205))]


FOUND = {
    "saga=labels": {"spring", "summer-labels"},
    "status=waiting": {"B-2005"},
    "attention=1": {"B-2004", "summer"},
    "tag=vip": {"B-2001", "B-2004", "B-2005"},
    "tag=vip&status=completed": {"B-2001"},
    "version=2": set(),
    "within=1h&saga=season": {"summer"},
    "until=2020-01-01T00:00": set(),
    "q=B-200": {f"B-{number}" for number in range(2001, 2009)},
    "q=B-2003": {"B-2003"},
    "q=nobody": set(),
    "saga=nobody": set(),
    "after=nonsense&q=B-2003": {"B-2003"},
    "version=x&q=B-2003": set(),
}


def test_runs_are_found_by_filters_and_by_key(boss: Client) -> None:
    scenes.play()

    for query, keys in FOUND.items():
        response = boss.get(f"{LIST}?{query}")
        assert response.status_code == 200, query
        assert set(re.findall(r'saga-key">([^<]+)<', response.content.decode())) == keys, query


def test_a_run_is_found_by_its_id_and_by_how_that_begins(boss: Client) -> None:
    wanted, _ = scenes.done(), scenes.asked()

    for term in (wanted, wanted[:8]):
        assert re.findall(r'saga-key">([^<]+)<', boss.get(f"{LIST}?q={term}").content.decode()) == ["B-2001"]


def test_the_desks_count_is_seen_on_the_index_and_above_the_list(boss: Client) -> None:
    scenes.stuck()
    scenes.parked()

    assert "Compensation desk (2)" in text(boss.get("/admin/"))
    assert "Compensation desk (2)" in text(boss.get("/admin/celery_saga/"))
    assert text(boss.get(LIST)).count("Compensation desk (2)") == 2, "beside the list, and in the bar at the side"
    assert "Compensation desk" not in text(person().get("/admin/"))


# -- a run -----------------------------------------------------------------------------------------------------------
def test_a_runs_page_asks_for_as_much_whatever_the_run_has_done(boss: Client) -> None:
    few, many = scenes.grown(2, "few"), scenes.grown(1_000, "many")
    boss.get(page(few))

    short, long = statements(boss, page(few)), statements(boss, page(many))

    assert len(long) == len(short) <= 20
    assert not [sql for sql in long if "saga_step" in sql and "LIMIT" not in sql]
    assert len(boss.get(page(many)).content) < 120_000


def test_a_runs_page_tells_what_happened(boss: Client) -> None:
    seen = text(boss.get(page(scenes.stuck())))

    for told in ("compensation failed", "charge_card!undo", "refund_card", "the bank refuses", "2 attempts", "vip"):
        assert told in seen
    assert "an undo is used up: retry it" in seen
    assert 'n0["reserve_stock' in seen, "the diagram as text"


def test_parent_and_child_are_linked(boss: Client) -> None:
    parent = scenes.parked()
    child = Run.objects.get(parent_id=parent)

    assert page(child.id) in boss.get(page(parent)).content.decode()
    assert page(parent) in boss.get(page(child.id)).content.decode()


def test_the_timeline_leads_to_the_page_of_a_step(boss: Client) -> None:
    run_id = scenes.grown(120)

    response = boss.get(f"{page(run_id)}?step=map[99]&generation=1")

    assert response.headers["Location"] == f"{page(run_id)}?steps=3#step-map[99]"
    assert 'id="step-map[99]"' in boss.get(response.headers["Location"]).content.decode()


def test_what_a_run_holds_is_escaped(boss: Client) -> None:
    run_id = labels.options(key="<script>alert(1)</script>", tags=["<b>"]).start("<i>x</i>", 1).id

    for path in (LIST, page(run_id), do(run_id, "purge")):
        shown = boss.get(path).content.decode()
        assert "<script>alert" not in shown and "<i>x" not in shown and "<b>" not in shown


def test_payloads_and_tokens_are_hidden_from_who_may_not_see_them() -> None:
    run_id = scenes.done()
    token = f"{PREFIX}abc.def"
    other = labels.start(token, 0).id
    ann = person("view_run")

    seen = text(ann.get(page(run_id)))
    assert "Long Lane" not in seen and "ch_" not in seen
    assert "You may not see what this run was given" in seen

    ann.logout()
    user = User.objects.get(username="ann")
    user.user_permissions.add(Permission.objects.get(codename="view_payload"))
    ann.force_login(user)
    assert "Long Lane" in text(ann.get(page(run_id)))
    payloads = text(ann.get(page(other))).partition("Payloads")[2].partition("Diagram")[0]
    assert f"{PREFIX}***" in payloads and "abc.def" not in payloads


def test_there_is_no_page_of_a_run_that_is_not_there(boss: Client) -> None:
    assert boss.get(page("nobody")).status_code == 404
    assert boss.get(do("nobody", "cancel")).status_code == 404
    assert boss.get(do(scenes.done(), "explode")).status_code == 404


# -- what people do --------------------------------------------------------------------------------------------------
def history(run_id: str) -> list[tuple[str, str | None, str | None]]:
    return [(row.action.value, row.by, row.reason) for row in celery_app.saga.get(run_id).history() if row.by]


def test_a_cancel_asks_first_and_is_recorded_twice() -> None:
    run_id = scenes.asked()
    ann = person("view_run", "cancel_run")

    asked = text(ann.get(do(run_id, "cancel")))
    assert "reserve_stock" in asked and "compensating" in asked
    assert celery_app.saga.get(run_id).status == "waiting"

    assert "The run is cancelled" in said(ann, do(run_id, "cancel"), {"compensate": "on", "reason": "sold out"})

    assert celery_app.saga.get(run_id).status == "cancelled"
    assert history(run_id) == [("cancel", "ann", "sold out")]
    entry = LogEntry.objects.get()
    assert (entry.user.username, entry.object_id) == ("ann", run_id)
    assert "sold out" in entry.change_message


def test_the_first_refusal_of_the_engine_is_a_message_with_its_code() -> None:
    run_id = scenes.done()
    ann = person("view_run", "resume_run", "retry_run", "suspend_run")

    for verb in ("resume", "retry", "suspend"):
        assert "It would be refused now: ILLEGAL_TRANSITION" in text(ann.get(do(run_id, verb)))
        assert said(ann, do(run_id, verb), {"reason": "x"}).startswith("ILLEGAL_TRANSITION:")
    assert not LogEntry.objects.exists()


def test_verbs_act_also_where_each_request_is_a_transaction(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = scenes.asked()
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    for verb, status in (("suspend", "suspended"), ("resume", "waiting"), ("cancel", "cancelled")):
        said(boss, do(run_id, verb), {"reason": "x", "compensate": "on"})
        assert celery_app.saga.get(run_id).status == status


def test_what_is_only_tried_changes_nothing() -> None:
    run_id = scenes.asked()
    before = celery_app.saga.engine.run_of(run_id)
    looks = looking(celery_app.saga.engine)

    assert looks.suspend(run_id).status == "suspended"
    assert looks.cancelling(run_id, compensate=True, reason="", by=None).new.run.status == "compensating"
    assert looks.skip(run_id, "approval").status == "running"

    assert celery_app.saga.engine.run_of(run_id) == before


VERBS = {
    "cancel": ("cancel_run", ""),
    "suspend": ("suspend_run", ""),
    "resume": ("resume_run", ""),
    "compensate": ("cancel_run", ""),
    "retry": ("retry_run", ""),
    "signal": ("signal_run", ""),
    "purge": ("purge_run", ""),
    "skip": ("retry_run", "?step=charge_card"),
    "retry_undo": ("settle_undo", "?step=charge_card"),
    "undo_done": ("settle_undo", "?step=charge_card"),
    "undo_skipped": ("settle_undo", "?step=charge_card"),
}


def test_each_action_needs_its_permission() -> None:
    run_id = scenes.stuck()
    everything = {codename for codename, _ in VERBS.values()} | {"start_run", "view_payload"}
    ann = person("view_run")
    user = User.objects.get(username="ann")
    before = history(run_id)

    for verb, (codename, query) in VERBS.items():
        user.user_permissions.set(Permission.objects.filter(codename__in=everything - {codename} | {"view_run"}))
        assert ann.get(do(run_id, verb, query)).status_code == 403, verb
        assert ann.post(do(run_id, verb, query), {"reason": "x"}).status_code == 403, verb
        user.user_permissions.set(Permission.objects.filter(codename__in={codename, "view_run"}))
        assert ann.get(do(run_id, verb, query)).status_code == 200, verb
    assert history(run_id) == before


def test_whoever_may_not_look_sees_nothing() -> None:
    run_id = scenes.stuck()
    ann = person("cancel_run", "purge_run", "settle_undo")

    for path in (LIST, page(run_id), f"{LIST}desk/", do(run_id, "cancel"), f"{LIST}bulk/cancel/"):
        assert ann.get(path).status_code == 403, path
    assert Client().get(page(run_id)).status_code == 302


def test_a_form_without_its_token_changes_nothing(boss: Client) -> None:
    run_id = scenes.asked()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="boss"))

    assert strict.post(do(run_id, "cancel"), {"reason": "x"}).status_code == 403
    assert celery_app.saga.get(run_id).status == "waiting"


def test_only_a_post_acts(boss: Client) -> None:
    run_id = scenes.asked()

    for verb in ("cancel", "suspend", "purge"):
        boss.get(do(run_id, verb, "?compensate=on&reason=x&confirmed=1"))
    assert celery_app.saga.get(run_id).status == "waiting"


def test_an_undo_is_retried_with_other_arguments(boss: Client) -> None:
    run_id = scenes.stuck()
    path = do(run_id, "retry_undo", "?step=charge_card&from=desk")

    assert "too many" in text(boss.post(path, {"args": '["ch_1", "spare", "too many"]', "reason": "x"}))
    assert "Write a JSON list" in text(boss.post(path, {"args": "{}"}))
    assert "is no JSON" in text(boss.post(path, {"args": "[1,"}))

    response = boss.post(path, {"args": '["ch_1", "spare"]', "reason": "the main one is closed"})

    assert response.headers["Location"] == f"{LIST}desk/"
    assert celery_app.saga.get(run_id).status == "failed"
    assert history(run_id) == [("retry_undo", "boss", "the main one is closed")]


@pytest.mark.parametrize("verb", ["undo_done", "undo_skipped"])
def test_an_undo_is_closed_by_hand_with_a_reason(boss: Client, verb: str) -> None:
    run_id = scenes.stuck()
    path = do(run_id, verb, "?step=charge_card")

    assert "This field is required" in text(boss.post(path, {"reason": ""}))
    assert "The undo of charge_card is" in said(boss, path, {"reason": "by phone"})

    assert celery_app.saga.get(run_id).status == "failed"
    assert history(run_id) == [("resolve_undo", "boss", "by phone")]


def test_a_completed_run_is_undone(boss: Client) -> None:
    run_id = scenes.done()
    asked = text(boss.get(do(run_id, "compensate")))
    assert asked.index("book_courier") < asked.index("charge_card") < asked.index("reserve_stock")

    said(boss, do(run_id, "compensate"), {"reason": "returned"})

    assert celery_app.saga.get(run_id).status == "cancelled"


def test_a_failed_run_is_retried_from_a_step(boss: Client) -> None:
    run_id = scenes.undone()

    assert "in generation 2" in said(boss, do(run_id, "retry"), {"from_step": "charge_card", "reason": "x"})

    assert celery_app.saga.get(run_id).status == "completed"


def test_a_run_is_suspended_and_resumed(boss: Client) -> None:
    run_id = scenes.asked()

    said(boss, do(run_id, "suspend"), {"reason": "a look"})
    assert celery_app.saga.get(run_id).status == "suspended"
    said(boss, do(run_id, "resume"), {"reason": ""})

    assert celery_app.saga.get(run_id).status == "waiting"
    assert [row[0] for row in history(run_id)] == ["suspend", "resume"]


def test_one_run_is_purged_with_its_children_and_no_other(boss: Client) -> None:
    others = [scenes.done(), scenes.asked()]
    run_id = scenes.parked()
    said(boss, do(run_id, "cancel"), {"compensate": "on", "reason": "x"})
    child = Run.objects.get(parent_id=run_id).id
    assert "Runs that go2" in re.sub(r"\s", "", text(boss.get(do(run_id, "purge")))).replace(
        "Runsthatgo", "Runs that go"
    )

    assert "2 runs were purged" in said(boss, do(run_id, "purge"), {"reason": "gone"})

    assert set(Run.objects.filter(purged_at__isnull=True).values_list("pk", flat=True)) == set(others)
    assert boss.get(page(child)).status_code == 404
    assert "ILLEGAL_TRANSITION" in said(boss, do(others[1], "purge"), {"reason": "x"})


def test_old_runs_are_counted_and_then_purged(boss: Client) -> None:
    scenes.done(), scenes.asked()
    form = {"older_than_days": "0", "saga": "", "status": "", "keep_keys": ""}

    assert "0" in text(boss.post(f"{LIST}purge/", {**form, "older_than_days": "30"}))
    counted = boss.post(f"{LIST}purge/", {**form, "older_than_days": "0.0000001", "status": "failed"})
    assert "Runs that go" in text(counted)
    sure = {**form, "older_than_days": "0.0000001", "confirmed": "1"}
    changed = boss.post(f"{LIST}purge/", {**sure, "counted": counted.context["form"].counted})
    assert "Runs that go" in text(changed), "what the form says now was not counted"
    assert Run.objects.count() == 2
    boss.post(f"{LIST}purge/", {**sure, "counted": changed.context["form"].counted})

    assert [run.status for run in Run.objects.all()] == ["waiting"]


def test_all_runs_of_a_saga_are_paused(boss: Client) -> None:
    assert "until it is unpaused" in said(boss, f"{LIST}pause/saga/?saga=checkout", {"reason": "the bank is down"})
    (lane,) = (lane for lane in celery_app.saga.lanes() if lane.name == "checkout")
    assert (lane.paused_by, lane.paused_reason) == ("boss", "the bank is down")

    assert "go on" in said(boss, f"{LIST}unpause/saga/?saga=checkout", {"reason": ""})
    assert "was not paused" in said(boss, f"{LIST}unpause/saga/?saga=checkout", {"reason": ""})
    assert "UNKNOWN_SAGA" in said(boss, f"{LIST}pause/saga/?saga=nobody", {"reason": ""})


# -- many runs -------------------------------------------------------------------------------------------------------
def test_picked_runs_are_tried_first_and_done_then(boss: Client) -> None:
    waiting, over = scenes.asked(), scenes.done()
    picked = {"action": "cancel_runs", "_selected_action": [waiting, over], "index": "0"}

    plan = boss.post(LIST, picked)
    assert "it would be done for 1" in text(plan) and "1 would stay as they are" in text(plan)
    assert celery_app.saga.get(waiting).status == "waiting"

    told = said(
        boss, f"{LIST}bulk/cancel/", {"ids": [waiting, over], "confirmed": "1", "compensate": "on", "reason": "x"}
    )

    assert told.startswith("cancel: done for 1 of 2 runs; 1 had nothing to change")
    assert celery_app.saga.get(waiting).status == "cancelled"
    assert history(waiting) == [("cancel", "boss", "x")]
    assert LogEntry.objects.get().object_id == waiting


def test_refused_ones_are_told_with_their_code(boss: Client) -> None:
    over = scenes.done()

    plan = text(boss.post(LIST, {"action": "resume_runs", "_selected_action": [over], "index": "0"}))

    assert "refused for 1" in plan and "ILLEGAL_TRANSITION" in plan


def test_all_runs_that_filters_name(boss: Client) -> None:
    waiting, over = scenes.asked(), scenes.done()
    address = f"{LIST}bulk/cancel/?saga=checkout&tag=vip"
    asked = boss.get(address)
    assert "it would be done for 1" in text(asked)
    late = checkout.options(tags=["vip"]).start(scenes.order("B-2999", 250_000))

    now = {"ids": asked.context["ids"], "confirmed": "1", "compensate": "on", "reason": "flash sale is over"}
    assert "done for 1 of 1 runs" in said(boss, address, now)

    assert celery_app.saga.get(waiting).status == "cancelled"
    assert celery_app.saga.get(over).status == "completed"
    assert late.status == "waiting", "the page that was confirmed has not shown it"
    assert "INVALID_ARGUMENT" in said(boss, f"{LIST}bulk/cancel/", {"confirmed": "1", "reason": "x"})


def test_many_runs_need_the_verbs_permission() -> None:
    run_id = scenes.asked()
    ann = person("view_run", "retry_run")

    assert ann.post(f"{LIST}bulk/cancel/", {"ids": [run_id], "confirmed": "1", "reason": "x"}).status_code == 403
    assert "cancel_runs" not in ann.get(LIST).content.decode()
    ann.post(LIST, {"action": "cancel_runs", "_selected_action": [run_id], "index": "0"})
    assert celery_app.saga.get(run_id).status == "waiting"


# -- the desk --------------------------------------------------------------------------------------------------------
def test_the_desk_shows_the_oldest_first_with_what_can_be_done(boss: Client) -> None:
    first, second = scenes.stuck(), scenes.parked()

    response = boss.get(f"{LIST}desk/")
    shown, seen = response.content.decode(), text(response)

    assert shown.index(page(first)) < shown.index(page(second))
    assert "2 runs need a person" in seen
    for verb in ("retry_undo", "undo_done", "undo_skipped"):
        assert do(first, verb) in shown
    assert do(second, "resume") in shown
    assert "Mark the undo done" not in text(person("view_run").get(f"{LIST}desk/"))
    assert "INVALID_ARGUMENT" in text(boss.get(f"{LIST}desk/?after=nonsense"))
