"""Runs of every kind, made by executing the sagas; each scene gives the id of its run."""

import time
from dataclasses import replace
from datetime import timedelta

from bazaar import tasks
from bazaar.sagas import APPROVAL, Order, Shipping, checkout, labels, season
from celery import current_app

from celery_saga.core.records import StepRecord
from celery_saga.core.status import StepStatus


def order(id_: str, cents: int = 4_200, **more) -> Order:
    """An order of the bazaar."""
    return Order(id=id_, cents=cents, address="Long Lane 5", **more)


def done() -> str:
    """Completed."""
    return _settled(checkout.options(tags=["vip"]).start(order("B-2001", shipping=Shipping.EXPRESS)))


def retried() -> str:
    """Completed in the third attempt."""
    return _settled(_failing(charge_card=2).start(order("B-2002")))


def undone() -> str:
    """Failed, and undone."""
    return _settled(_failing(book_courier=1).start(order("B-2003")))


def stuck() -> str:
    """An undo is used up."""
    return _settled(_failing(book_courier=1, refund_card=2).options(tags=["vip"]).start(order("B-2004", 98_000)))


def asked() -> str:
    """Waits for a person."""
    return _settled(checkout.options(tags=["vip"]).start(order("B-2005", 250_000)))


def approved(pause_s: float = 0.0) -> str:
    """A person has said yes, after a while."""
    run = checkout.start(order("B-2006", 180_000))
    _settled(run)
    time.sleep(pause_s)
    run.signal(APPROVAL, {"approved": True, "limit": 200_000})
    return _settled(run)


def refused() -> str:
    """A person has said no."""
    run = checkout.start(order("B-2007", 990_000))
    run.signal(APPROVAL, {"approved": False, "limit": 0, "remark": "no such customer"})
    return _settled(run)


def cancelled() -> str:
    """Cancelled by a person."""
    run = checkout.start(order("B-2008", 120_000))
    run.cancel(by="ann", reason="the customer has called")
    return _settled(run)


def printed(count: int = 9) -> str:
    """A map over `count` items."""
    return _settled(labels.start("spring", count))


def parked() -> str:
    """Its body has a bug; it has a child."""
    return _settled(season.start("summer"))


def grown(count: int, key: str = "grown") -> str:
    """A completed run of so many steps, some of which have failed, written without executing them."""
    saga = current_app.saga
    like = labels.options(key=f"like-{key}").start("like", 1)
    store, run = saga.store, saga.engine.run_of(like.id)
    join, first = store.steps(run.id)
    end = run.created_at + timedelta(seconds=count * 0.01 + 1)
    grown_run = replace(run, id=f"{key}-{count}", key=key, ended_at=end, updated_at=end, step_seq=count)
    whole = replace(join, run_id=grown_run.id, join_total=count, ended_at=end)
    steps = [whole, *(_copied(first, grown_run.id, number) for number in range(count))]
    history = [replace(row, run_id=grown_run.id) for row in store.history(run.id)]
    store.import_run(grown_run, steps, history, [])
    return grown_run.id


def _copied(step: StepRecord, run_id: str, number: int) -> StepRecord:
    """The same step, a hundredth of a second later each."""
    begun = step.created_at + timedelta(seconds=number * 0.01)
    failed = {"status": StepStatus.FAILED, "failures": 1} if number % 97 == 5 else {}
    return replace(
        step,
        run_id=run_id,
        key=f"map[{number}]",
        ordinal=number,
        seq=number + 1,
        created_at=begun,
        started_at=begun + timedelta(milliseconds=20),
        ended_at=begun + timedelta(milliseconds=220),
        **failed,
    )


def multiplied(count: int) -> None:
    """So many completed runs with keys `k000`, `k001`, ..., written without executing them."""
    saga = current_app.saga
    run = saga.engine.run_of(labels.options(key="like").start("like", 0).id)
    for number in range(count):
        at = run.created_at + timedelta(seconds=number + 1)
        saga.store.import_run(replace(run, id=f"id-{number:05}", key=f"k{number:03}", created_at=at), [], [], [])


def play(pace_s: float = 0.0, many: int = 0) -> dict[str, str]:
    """All of them, by name.

    Args:
        pace_s: how long a task takes, about.
        many: so many more runs before, which just complete.
    """
    tasks.trouble.clear()
    for number in range(many):
        checkout.options(tags=["spring"] if number % 3 == 0 else []).start(order(f"A-{1000 + number}"))
    tasks.pace["s"] = pace_s
    found = {
        scene.__name__: scene() for scene in (done, retried, undone, stuck, asked, refused, cancelled, printed, parked)
    }
    found["approved"] = approved(pace_s * 8)
    tasks.pace["s"] = 0.0
    return found


def _failing(**times: int):
    tasks.trouble.clear()
    tasks.trouble.update(times)
    return checkout


def _settled(handle) -> str:
    """Let it go on until it ends, or waits for longer than a moment."""
    for _ in range(20):
        current_app.saga.after_start(handle.id)
        if handle.refresh().status.is_end or handle.status in ("waiting", "suspended"):
            break
        time.sleep(0.1)
    return handle.id
