"""Sagas whose steps use Django's ORM, and views that start them; imported by workers with CELERY_IMPORTS."""

from __future__ import annotations

import os
import time

from celery import shared_task
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from proj import celery_app
from shop.models import Order

from celery_saga import Run, current_step, saga
from contrib_django import models


@shared_task(name="djstore.till.count")
def count(place: int) -> int:
    """Write a row, once for each call; the pid of the process."""
    Order.objects.create(item=str(place))
    return os.getpid()


@shared_task(name="djstore.till.look")
def look(order_id: int) -> list[str]:
    """The status of an order as another connection sees it."""
    return list(Order.objects.filter(pk=order_id).values_list("status", flat=True))


@shared_task(name="djstore.till.book")
def book(word: str) -> str:
    """Written with the checkpoint; the first attempt dies after it has written."""
    Order.objects.create(item=word)
    if current_step.attempt == 1:
        os._exit(9)
    return word


@saga(name="djstore_counting")
def counting(run: Run, number: int) -> int:
    """As many steps side by side."""
    return len(run.map(count, range(number)))


@saga(name="djstore_two_steps")
def two_steps(run: Run) -> list[int]:
    """Two steps, and a wait between them."""
    first = run.step(count.si(1))
    run.wait_signal("go on", timeout=60)
    return [first, run.step(count.si(2))]


@saga(name="djstore_looking")
def looking(run: Run, order_id: int) -> list[str]:
    """One step that reads what the request has written."""
    return list(run.step(look.si(order_id)))


@saga(name="djstore_till_booking")
def booking(run: Run, word: str) -> str:
    """One transactional step."""
    return str(run.step(book.si(word), transactional=True))


def slow_order(request: HttpRequest) -> HttpResponse:
    """Start a run early, write late, commit two seconds later."""
    order = Order.objects.create(item="chair")
    run = looking.start(order.pk)
    time.sleep(2)
    order.status = "committed"
    order.save()
    if "fails" in request.GET:
        raise KeyError(run.id)
    return HttpResponse(run.id)


urlpatterns = [path("order", slow_order)]


def die_between_commit_and_message() -> None:
    """The process ends right after the commit, before anything that was to follow it."""
    with transaction.atomic():
        transaction.on_commit(lambda: os._exit(9))
        two_steps.options(key="orphan").start()


def rows() -> dict[str, int]:
    """How many there are of each."""
    return {"runs": models.Run.objects.count(), "steps": models.Step.objects.count(), "orders": Order.objects.count()}


__all__ = ["celery_app", "connection"]
