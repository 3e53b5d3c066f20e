"""Runs in Django's transactions, with Django's connection; run by test_joining.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from celery import shared_task, signals
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import AsyncClient, Client, TestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import include, path
from proj import celery_app
from shop.models import Order
from shop.sagas import approved, checkout

from celery_saga import DefinitionError, IdempotencyConflict, Retry, Run, RunNotFound, saga
from celery_saga.runtime.names import HEADER
from celery_saga.testing import Lab
from contrib_django import models
from contrib_django.api import urls
from contrib_django.transactions import at_once

commits = pytest.mark.django_db(transaction=True)
never_commits = pytest.mark.django_db


@pytest.fixture
def sent() -> Iterator[list[str]]:
    """The runs whose first wake-ups are published, in order."""
    found: list[str] = []

    def note(headers: Any = None, **_: Any) -> None:
        if HEADER in headers:
            found.append(headers[HEADER]["run"])

    celery_app.saga.services.store.now()  # makes a SQLite file one that is read while it is written
    signals.before_task_publish.connect(note)
    yield found
    signals.before_task_publish.disconnect(note)
    celery_app.saga.services.close()


def seen_outside(run_id: str) -> bool:
    """Whether another connection finds the run."""
    with at_once():
        return celery_app.saga.store.load(run_id) is not None


# -- commit, rollback and savepoints ------------------------------------------------------------------------------
@commits
def test_a_start_is_there_with_the_commit_and_sent_after_it(sent: list[str]) -> None:
    with transaction.atomic():
        with CaptureQueriesContext(connection) as asked:
            run = checkout.start(1, 100)

        assert any("INSERT" in query["sql"] and "saga_run" in query["sql"] for query in asked)
        assert (run.status, run.created, sent) == ("queued", True, [])
        assert models.Run.objects.get(pk=run.id).status == "queued"
        assert not seen_outside(run.id)

    assert sent == [run.id]
    assert seen_outside(run.id)
    assert celery_app.saga.get(run.id).status == "queued"


@commits
def test_nothing_is_left_of_a_start_that_is_rolled_back(sent: list[str]) -> None:
    with suppress(KeyError), transaction.atomic():
        run = checkout.start(1, 100)
        raise KeyError

    assert (sent, models.Run.objects.count()) == ([], 0)
    with pytest.raises(RunNotFound, match="rolled back"):
        _ = run.status


@commits
def test_a_savepoint_takes_its_starts_with_it(sent: list[str]) -> None:
    with transaction.atomic():
        before = checkout.start(1, 100)
        with suppress(KeyError), transaction.atomic():
            lost = checkout.start(2, 100)
            before.cancel()
            raise KeyError
        with pytest.raises(RunNotFound, match="rolled back"):
            _ = lost.status
        with transaction.atomic():
            after = checkout.start(3, 100)

    assert sent == [before.id, after.id]
    assert [before.status, after.status] == ["queued", "queued"]
    assert set(models.Run.objects.values_list("key", flat=True)) == {"1", "3"}


@commits
def test_a_key_that_is_taken_leaves_the_transaction_usable(sent: list[str]) -> None:
    checkout.start(1, 100)
    with transaction.atomic():
        with pytest.raises(IdempotencyConflict):
            checkout.start(1, 200)
        assert not checkout.start(1, 100).created
        Order.objects.create(item="chair")

    assert Order.objects.count() == 1


@commits
def test_a_durable_block_is_joined_too(sent: list[str]) -> None:
    with transaction.atomic(durable=True):
        run = checkout.start(1, 100)

    assert sent == [run.id]


@commits
def test_without_a_block_everything_is_committed_at_once(sent: list[str]) -> None:
    run = checkout.start(1, 100)

    assert sent == [run.id]
    assert seen_outside(run.id)


@commits
def test_a_signal_and_a_cancel_go_with_the_transaction(sent: list[str]) -> None:
    run, other = approved.start(1), approved.start(2)
    handles = [approved.find(key="1"), celery_app.saga.get(run.id), run]
    for place, handle in enumerate(handles):
        with suppress(KeyError), transaction.atomic():
            assert handle.signal("approval", True, id=f"s{place}") == "kept"
            other.cancel()
            raise KeyError
    assert models.Signal.objects.count() == 0

    with transaction.atomic():
        run.signal("approval", True, id="s")
        other.cancel(reason="changed my mind")

    assert models.Signal.objects.get(run_id=run.id).signal_id == "s"
    assert sent[2:] == [run.id, other.id]
    celery_app.saga.engine.coordinate(other.id)
    assert other.refresh().status == "cancelled"


@commits
def test_what_takes_locks_is_refused_in_a_block_and_done_at_once_on_request(sent: list[str]) -> None:
    run = approved.start(1)
    with transaction.atomic():
        for refused in (run.suspend, run.wait, lambda: approved.options(if_exists="restart_failed").start(1)):
            with pytest.raises(DefinitionError, match="transaction"):
                refused()
    with suppress(KeyError), transaction.atomic(), at_once():
        run.suspend(reason="stock-taking")
        raise KeyError

    assert run.status == "suspended"


@commits
def test_autocommit_off_is_a_transaction_too(sent: list[str]) -> None:
    transaction.set_autocommit(False)
    try:
        lost = checkout.start(1, 100)
        assert not seen_outside(lost.id)
        transaction.rollback()
        kept = checkout.start(2, 100)
        transaction.commit()
        assert seen_outside(kept.id)
        assert sent == []
    finally:
        transaction.set_autocommit(True)

    assert sent == [kept.id]
    assert models.Run.objects.get().id == kept.id


@commits
def test_a_transaction_that_is_broken_takes_no_start(sent: list[str]) -> None:
    with suppress(DatabaseError), transaction.atomic():
        with suppress(DatabaseError), transaction.atomic(savepoint=False):
            Order.objects.raw("SELECT nothing FROM nowhere")[0]
        checkout.start(1, 100)

    assert (sent, models.Run.objects.count()) == ([], 0)


@commits
def test_another_threads_block_is_none_of_ours(sent: list[str]) -> None:
    found: list[Any] = []
    with transaction.atomic():
        worker = threading.Thread(target=lambda: found.append(checkout.start(1, 100)))
        worker.start()
        worker.join()

        assert sent == [found[0].id]


@commits
@override_settings(ROOT_URLCONF=__name__)
def test_in_a_block_everything_that_reads_sees_what_it_has_written(sent: list[str]) -> None:
    with suppress(KeyError), transaction.atomic():
        run = checkout.start(1, 100)
        (found,) = celery_app.saga.runs()
        told = Client().get(f"/sagas/runs/{run.id}")
        call_command("saga", "show", run.id, stdout=(shown := StringIO()))

        assert found.id == run.id
        assert (celery_app.saga.export(run.id) or {})["run"]["id"] == run.id
        assert (told.status_code, told.json()["status"]) == (200, "queued")
        assert run.id in shown.getvalue()
        assert not seen_outside(run.id)
        raise KeyError

    assert list(celery_app.saga.runs()) == []
    assert celery_app.saga.store.load(run.id) is None


# -- tests that never commit ----------------------------------------------------------------------------------------
@never_commits
def test_in_a_test_nothing_is_sent_before_its_callbacks_are_executed(
    sent: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        with transaction.atomic():
            run = checkout.start(1, 100)
        assert sent == []

    assert sent == [run.id]
    assert len(callbacks) >= 1
    assert run.status == "queued"
    assert not seen_outside(run.id)


class TestCases(TestCase):
    """Django's own test case."""

    @classmethod
    def setUpTestData(cls) -> None:
        cls.waits = approved.start(1)

    def test_a_start_is_part_of_the_test(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks:
            run = checkout.start(1, 100)

        assert set(models.Run.objects.values_list("pk", flat=True)) == {run.id, self.waits.id}
        assert len(callbacks) >= 1

    def test_b_nothing_is_left_of_it(self) -> None:
        assert models.Run.objects.get().pk == self.waits.id

    def test_c_what_all_tests_begin_with_is_a_handle_as_ever(self) -> None:
        assert self.waits == type(self).waits
        assert self.waits.cancel()["cancelled"]
        assert self.waits.refresh().status == "queued"


@never_commits
def test_the_lab_is_no_part_of_it(lab: Lab) -> None:
    run = approved.start(1)
    lab.drain()
    run.suspend()

    assert run.status == "suspended"
    assert models.Run.objects.count() == 0


# -- views ----------------------------------------------------------------------------------------------------------
def order_view(request: HttpRequest) -> HttpResponse:
    order = Order.objects.create(item="chair", cents=100)
    run = checkout.start(order.pk, 100)
    if "fails" in request.GET:
        raise KeyError(run.id)
    return JsonResponse({"run": run.id, "sent before the commit": list(_sent_now)})


async def async_view(request: HttpRequest) -> HttpResponse:
    def ordered() -> str:
        with transaction.atomic():
            return checkout.start(2, 100).id

    run = await checkout.start_async(1, 100)
    return JsonResponse({"runs": [run.id, await sync_to_async(ordered)()]})


urlpatterns = [
    path("order", order_view),
    path("async", async_view),
    path("sagas/", include(urls(celery_app, lambda *_: True))),
]
_sent_now: list[str] = []


@commits
@override_settings(ROOT_URLCONF=__name__)
def test_a_request_is_one_transaction(sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    monkeypatch.setattr(f"{__name__}._sent_now", sent)

    failed = Client(raise_request_exception=False).get("/order?fails")
    assert (failed.status_code, sent, models.Run.objects.count(), Order.objects.count()) == (500, [], 0, 0)

    told = Client().get("/order").json()
    assert (told["sent before the commit"], sent) == ([], [told["run"]])
    assert models.Run.objects.get().key == str(Order.objects.get().pk)


@commits
@override_settings(ROOT_URLCONF=__name__)
def test_an_async_view_starts_runs_in_both_ways(sent: list[str]) -> None:
    async def asked() -> Any:
        return await AsyncClient().get("/async")

    told = async_to_sync(asked)().json()

    assert sent == told["runs"]
    assert models.Run.objects.count() == 2


# -- transactional steps --------------------------------------------------------------------------------------------
@shared_task(name="djstore.book")
def book(word: str) -> str:
    order = Order.objects.create(item=word)
    checkout.start(order.pk, 100)
    if Order.objects.filter(item="again").exists():
        Order.objects.filter(item="again").delete()
        raise TimeoutError
    return word


@saga(name="djstore_booking")
def booking(run: Run, word: str) -> str:
    return str(run.step(book.si(word), transactional=True, retry=Retry(2, delay=0)))


@commits
def test_what_a_step_writes_and_starts_commits_with_its_checkpoint(sent: list[str]) -> None:
    Order.objects.create(item="again")
    with override_settings(CELERY_TASK_ALWAYS_EAGER=True):
        with pytest.raises(Exception, match="TimeoutError"):
            booking.options(deadline=5).start("lost").wait(10)
        assert set(Order.objects.values_list("item", flat=True)) == {"again"}
        assert models.Run.objects.exclude(saga="djstore_booking").count() == 0

        Order.objects.all().delete()
        assert booking.start("kept").wait(10) == "kept"
        assert Order.objects.get().item == "kept"
        assert models.Run.objects.exclude(saga="djstore_booking").get().key == str(Order.objects.get().pk)
    assert booking.start("later").status == "queued"


@never_commits
def test_eager_runs_do_not_look_for_what_nobody_sees(django_capture_on_commit_callbacks: Any) -> None:
    with override_settings(CELERY_TASK_ALWAYS_EAGER=True):
        with django_capture_on_commit_callbacks(execute=True):
            run = checkout.start(1, 100)
        assert run.status == "queued"
