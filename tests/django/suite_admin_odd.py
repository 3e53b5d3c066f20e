"""The admin under odd settings, and asked for odd addresses; run by test_admin.py."""

from __future__ import annotations

import re
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from bazaar import scenes, tasks
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from proj import celery_app
from suite_admin import LIST, do, page, person, said, text

from celery_saga import Run as Body
from celery_saga import saga
from celery_saga.core.masking import PREFIX
from contrib_django.models import History, Run

pytestmark = pytest.mark.django_db(transaction=True)
NUL, LONG = "a%00b", "9" * 5000


@saga(name="named_as_options_are")
def named_as_options_are(run: Body, run_key: str, run_delay: int, run_more: str) -> str:
    """Its parameters have the names that the form's own fields might have."""
    return f"{run_key} {run_delay} {run_more}"


@pytest.fixture(autouse=True)
def _calm() -> None:
    tasks.trouble.clear()


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu")
def test_without_time_zones_pages_tell_instants_in_the_projects(boss: Client) -> None:
    stuck, waiting = scenes.stuck(), scenes.asked()
    here = ZoneInfo("Asia/Kathmandu")
    told = {
        LIST: Run.objects.get(pk=waiting).created_at,
        f"{LIST}?within=1h": Run.objects.get(pk=waiting).created_at,
        f"{LIST}desk/": Run.objects.get(pk=stuck).attention_at,
        page(stuck): History.objects.filter(run_id=stuck).latest("seq").at,
        page(waiting): Run.objects.get(pk=waiting).steps.get(key="reserve_stock").started_at,
    }

    for path, at in told.items():
        assert f"{at.astimezone(here):%Y-%m-%d %H:%M:%S}" in text(boss.get(path)), path
    assert boss.get(f"{LIST}?since=2020-01-01T00:00").context["cl"].result_count == 2


@pytest.mark.parametrize("odd", [NUL, LONG], ids=["NUL", "5000 digits"])
def test_an_address_that_names_nothing_is_no_error_of_the_server(boss: Client, odd: str) -> None:
    run_id = scenes.stuck()

    for name in ("saga", "status", "tag", "version", "since", "within", "id", "key__lt", "q", "after"):
        listed = boss.get(f"{LIST}?{name}={odd}")
        assert listed.status_code in (200, 302, 400), name
        for verb in ("cancel", "resume"):
            assert boss.get(f"{LIST}bulk/{verb}/?{name}={odd}").status_code in (200, 302), name
    for path in (page(odd), do(odd, "cancel"), do(run_id, "retry_undo", f"?step={NUL}"), f"{LIST}start/{odd}/"):
        assert boss.get(path).status_code == 404, path
    for path in (f"{LIST}{odd}/history/", f"{page(run_id)}?step={odd}", f"{page(run_id)}?step=x&generation={odd}"):
        assert boss.get(path).status_code == 302, path
    for path in (f"{page(run_id)}?steps={odd}&history={odd}&show={odd}", f"{LIST}desk/?saga={odd}&after={odd}"):
        assert boss.get(path).status_code == 200, path


def test_who_may_not_see_payloads_cannot_ask_for_them_either() -> None:
    scenes.done()
    ann = person("view_run")

    for asked in ("input_text__contains=Long Lane", "result_text__startswith=x", "headers_text__gt=a", "error_text=x"):
        name, _, value = asked.partition("=")
        assert ann.get(f"{LIST}?{name}={quote(value)}").status_code == 400, asked


def test_what_was_asked_of_another_generation_is_not_done(boss: Client) -> None:
    run_id = scenes.undone()
    asked = boss.get(do(run_id, "retry"))
    sure = {"reason": "x", "generation": asked.context["generation"]}
    tasks.trouble["book_courier"] = 1

    assert "starts over, in generation 2" in said(boss, do(run_id, "retry"), sure)
    again = said(boss, do(run_id, "retry"), sure)

    assert "ILLEGAL_TRANSITION" in again and "is in generation 2 now" in again
    assert celery_app.saga.engine.run_of(run_id).generation == 2


@override_settings(ROOT_URLCONF="bazaar.two_sites")
def test_pages_of_a_second_site_lead_to_its_own(boss: Client) -> None:
    stuck, waiting, ours = scenes.stuck(), scenes.asked(), LIST.replace("/admin/", "/ops/")
    pages = ["", "desk/", "start/", "start/labels/", "purge/", "bulk/suspend/?status=waiting"]
    pages += ["pause/saga/?saga=labels"]
    pages += [f"{run_id}/{path}" for run_id in (stuck, waiting) for path in ("change/", "do/cancel/", "do/signal/")]

    for path in pages:
        shown = boss.get(ours + path).content.decode()
        assert ours in shown and "/admin/celery_saga/" not in shown, path
    assert boss.post(f"{ours}{waiting}/do/suspend/", {"reason": "x"}).headers["Location"].startswith(ours)


def test_a_body_may_name_its_parameters_as_it_likes(boss: Client) -> None:
    given = {"run_key": "a", "run_delay": "7", "run_more": "{", "run-key": "mine"}

    boss.post(f"{LIST}start/named_as_options_are/", given)

    run = Run.objects.get()
    assert (run.key, run.status) == ("mine", "completed")
    assert celery_app.saga.get(run.id).result == "a 7 {"


def test_of_a_huge_payload_no_more_than_its_beginning_is_read(boss: Client) -> None:
    token = f"{PREFIX}abc.def "
    run_id = named_as_options_are.options(key="huge").start(token + "z" * 500_000, 1, "x").id

    with CaptureQueriesContext(connection) as asked:
        shown = boss.get(page(run_id)).content.decode()

    assert "cut here; an export of the run has all of it" in shown
    assert len(shown) < 100_000 and "abc.def" not in shown and f"{PREFIX}***" in shown
    whole = re.compile(r'(?<!\()"\w+"\."(?:input|args|result|value)_text"')
    assert not [row["sql"] for row in asked.captured_queries if whole.search(row["sql"].partition(" FROM ")[0])]


def test_a_cancel_that_would_change_nothing_is_not_offered_with_undos(boss: Client) -> None:
    run_id = scenes.done()

    asked = text(boss.get(do(run_id, "cancel")))

    assert "It would change nothing now: the run is completed." in asked
    assert "Undone, in this order" not in asked and "Yes: cancel" not in asked


def test_a_form_that_is_sent_twice_counts_once(boss: Client) -> None:
    waiting, given = scenes.asked(), {"run_key": "a", "run_delay": "7", "run_more": "x"}
    start, signal = f"{LIST}start/named_as_options_are/", do(waiting, "signal", "?signal=restocked")
    start_once, signal_once = (boss.get(path).context["form"].hidden_fields()[0] for path in (start, signal))

    for _ in range(2):
        boss.post(start, {**given, start_once.html_name: start_once.value()})
    told = [said(boss, signal, {"value": "7", signal_once.html_name: signal_once.value()}) for _ in range(2)]

    assert Run.objects.get(saga="named_as_options_are").key == f"form-{start_once.value()}"
    changed = boss.post(start, {**given, "run_key": "b", start_once.html_name: start_once.value()})
    assert "IDEMPOTENCY_CONFLICT" in text(changed), "as after the browser's way back"
    boss.post(start, {field.html_name: field.value() for field in changed.context["form"] if field.value()})
    assert Run.objects.filter(saga="named_as_options_are").count() == 2
    assert "was sent" in told[0] and "SIGNAL_DUPLICATE" in told[1]
    assert len(celery_app.saga.store.signals(waiting)) == 1
    assert start_once.value() != boss.get(start).context["form"].hidden_fields()[0].value()


@override_settings(CELERY_SAGA_DATABASE=None, CELERY_SAGA_DATABASE_URL="sqlite:///elsewhere.db")
def test_where_django_has_no_database_of_runs_their_pages_say_so(boss: Client) -> None:
    assert "/celery_saga/" not in boss.get("/admin/").content.decode()

    for path in (LIST, f"{LIST}desk/", f"{LIST}start/labels/", page("x"), do("x", "cancel"), f"{LIST}bulk/cancel/"):
        answer = boss.get(path, follow=True)
        assert answer.redirect_chain == [("/admin/", 302)], path
        assert "name it in CELERY_SAGA_DATABASE instead" in text(answer), path
    assert boss.get(f"{LIST}x/history/").status_code == 302


def test_runs_without_a_key_are_told_apart_and_found_by_what_is_shown_of_them(boss: Client) -> None:
    ids = [named_as_options_are.start("k", 1, "m").id for _ in range(3)]

    shown = re.findall(r'saga-id">([^<]+)<', boss.get(LIST).content.decode())
    found = [re.findall(r'saga-id">([^<]+)<', boss.get(f"{LIST}?q={each}").content.decode()) for each in shown]

    assert len(set(shown)) == len(ids)
    assert found == [[each] for each in shown]
