"""An app whose runs can be brought into every status that there is, each way by a real run in a laboratory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Celery, Task

from celery_saga import CelerySaga, Retry, Run, Saga, current_step, saga
from celery_saga.client.handle import RunHandle
from celery_saga.testing import Lab

app = Celery("desk_house", set_as_current=False)
app.conf.update(broker_url="amqp://nobody.invalid//")
CelerySaga(app, database_url="sqlite://", secret_keys=["a key that is kept"], sagas=[])

HOUR_S = 3600.0
TOKENS: dict[str, str] = {}
"""Of each run, the token that its body made; by run id."""
UNDONE: list[Any] = []
"""Arguments of the calls of `release`."""


class Declined(Exception):
    """An error that the sagas declare."""


@app.task(name="desk.reserve", shared=False)
def reserve() -> str:
    return "r-1"


@app.task(name="desk.release", shared=False, bind=True)
def release(self: Task, held: str | None, note: str = "") -> None:
    assert current_step.run_id
    UNDONE.append((held, note))


@app.task(name="desk.charge", shared=False)
def charge() -> str:
    return "c-1"


@app.task(name="desk.refund", shared=False)
def refund(charge_id: str) -> None:
    UNDONE.append(charge_id)


_UNDO = Retry(max_attempts=2, delay=60, jitter=False)


def _saga(name: str, rest: Callable[[Run], Any], *, undo_retry: Retry = _UNDO, **options: Any) -> Saga[Any, Any]:
    @saga(name=name, key="{key}", errors=[Declined], **options)
    def body(run: Run, key: str) -> Any:
        TOKENS[run.id] = run.token("approval")
        run.step(reserve.si(), undo=release, undo_retry=undo_retry)
        return rest(run)

    return body


def _waits(run: Run) -> None:
    run.wait_signal("approval")


def _charges(run: Run) -> Any:
    return run.step(charge.si(), retry=Retry(max_attempts=2, delay=60, jitter=False))


def _declines(run: Run) -> None:
    raise Declined("no")


def _pivots_and_waits(run: Run) -> None:
    run.pivot()
    run.wait_signal("approval")


def _pivots_and_times_out(run: Run) -> None:
    run.pivot()
    run.wait_signal("approval", timeout=10)


def _shields_and_waits(run: Run) -> None:
    with run.shield():
        run.wait_signal("approval")


def _leaves_unknown(run: Run) -> None:
    run.step(charge.si(), undo=refund, retry=Retry(max_attempts=1), timeout=5)


WAITS = _saga("waits", _waits)
SLEEPS = _saga("sleeps", lambda run: run.sleep(HOUR_S))
CHARGES = _saga("charges", _charges)
DECLINES = _saga("declines", _declines)
STUBBORN = _saga("stubborn", _declines, undo_retry=Retry(max_attempts=100, delay=60, factor=1, jitter=False))
HOLDS = _saga("holds", _declines, on_undo_failure="hold")
ASKS = _saga("asks", _charges, on_failure="suspend")
PIVOTS = _saga("pivots", _pivots_and_waits, deadline=HOUR_S)
ENDS_AFTER_PIVOT = _saga("ends_after_pivot", _pivots_and_times_out)
SHIELDS = _saga("shields", _shields_and_waits)
UNKNOWN = _saga("unknown", _leaves_unknown)

Way = Callable[[Lab], RunHandle[Any]]
WAYS: dict[str, Way] = {}
"""How to bring a run into a status; by name."""


def _way(function: Way) -> Way:
    WAYS[function.__name__] = function
    return function


def _started(lab: Lab, of: Saga[Any, Any]) -> RunHandle[Any]:
    handle: RunHandle[Any] = lab.start(of, "k")
    lab.drain()
    return app.saga.get(handle.id)


# -- forward ----------------------------------------------------------------------------------------------------------
@_way
def queued(lab: Lab) -> RunHandle[Any]:
    """Started, and nobody has looked at it yet."""
    return app.saga.get(lab.start(WAITS, "k").id)


@_way
def queued_delayed(lab: Lab) -> RunHandle[Any]:
    """Started for later."""
    lab.start(WAITS, "other")  # so that the laboratory knows the saga
    handle = WAITS.options(countdown=HOUR_S).start("k")
    lab.drain()
    return app.saga.get(handle.id)


@_way
def queued_paused(lab: Lab) -> RunHandle[Any]:
    """Its saga is paused, so it queues to be let in."""
    app.saga.registry.put(WAITS)
    app.saga.pause(saga="waits", reason="holidays", by="ann")
    return _started(lab, WAITS)


@_way
def waiting_signal(lab: Lab) -> RunHandle[Any]:
    return _started(lab, WAITS)


@_way
def waiting_timer(lab: Lab) -> RunHandle[Any]:
    return _started(lab, SLEEPS)


@_way
def running_attempt(lab: Lab) -> RunHandle[Any]:
    """An attempt of its step has been claimed, and its lease is not over."""
    lab.crash(before="charge")
    return _started(lab, CHARGES)


@_way
def running_back_off(lab: Lab) -> RunHandle[Any]:
    lab.fail("charge", Declined("first"))
    return _started(lab, CHARGES)


@_way
def pivoted(lab: Lab) -> RunHandle[Any]:
    return _started(lab, PIVOTS)


@_way
def shielded(lab: Lab) -> RunHandle[Any]:
    return _started(lab, SHIELDS)


@_way
def shielded_cancelled(lab: Lab) -> RunHandle[Any]:
    """It will be cancelled once its shield is left."""
    handle = _started(lab, SHIELDS)
    handle.cancel()
    return handle


# -- compensating -----------------------------------------------------------------------------------------------------
@_way
def undoing_attempt(lab: Lab) -> RunHandle[Any]:
    """An attempt of its undo has been claimed."""
    lab.crash(before="reserve!undo")
    return _started(lab, DECLINES)


@_way
def undoing_back_off(lab: Lab) -> RunHandle[Any]:
    """Its undo has failed once, and is tried again later."""
    lab.fail("reserve!undo", ConnectionError("first"))
    return _started(lab, DECLINES)


@_way
def undoing_stubborn(lab: Lab) -> RunHandle[Any]:
    """Its undo has failed five times, and is still tried."""
    lab.fail("reserve!undo", ConnectionError("no"), times=None)
    handle = _started(lab, STUBBORN)
    lab.advance(250)
    return handle


@_way
def undoing_cancelled(lab: Lab) -> RunHandle[Any]:
    """It was cancelled, and its undo is tried again later."""
    lab.fail("reserve!undo", ConnectionError("first"))
    handle = _started(lab, WAITS)
    handle.cancel()
    lab.drain()
    return handle


# -- suspended --------------------------------------------------------------------------------------------------------
@_way
def parked_operator(lab: Lab) -> RunHandle[Any]:
    handle = _started(lab, WAITS)
    handle.suspend()
    return handle


@_way
def parked_while_undoing(lab: Lab) -> RunHandle[Any]:
    """A person has suspended it while its undo waited for its next attempt."""
    handle = undoing_back_off(lab)
    handle.suspend()
    return handle


@_way
def parked_body_error(lab: Lab) -> RunHandle[Any]:
    @saga(name="buggy", key="{key}", errors=[Declined])
    def buggy(run: Run, key: str) -> None:
        run.step(reserve.si(), undo=release)
        raise ValueError("a bug")

    return _started(lab, buggy)


@_way
def parked_non_determinism(lab: Lab) -> RunHandle[Any]:
    handle = _started(lab, WAITS)

    @saga(name="waits", key="{key}", errors=[Declined])
    def changed(run: Run, key: str) -> None:
        run.step(charge.si())

    lab.registry.put(changed)
    handle.signal("approval", id="made it look")
    lab.drain()
    return handle


@_way
def parked_input(lab: Lab) -> RunHandle[Any]:
    handle = lab.start(WAITS, "k")

    @saga(name="waits", errors=[Declined])
    def changed(run: Run, number: int) -> None:
        run.step(charge.si())

    lab.registry.put(changed)
    lab.drain()
    return app.saga.get(handle.id)


@_way
def parked_on_failure(lab: Lab) -> RunHandle[Any]:
    lab.fail("charge", Declined("no"), times=None)
    handle = _started(lab, ASKS)
    lab.advance(61)
    return handle


@_way
def parked_pivot(lab: Lab) -> RunHandle[Any]:
    """An error has left its body after the pivot."""
    handle = _started(lab, ENDS_AFTER_PIVOT)
    lab.advance(11)
    return handle


@_way
def parked_deadline(lab: Lab) -> RunHandle[Any]:
    handle = _started(lab, PIVOTS)
    lab.advance(HOUR_S + 1)
    return handle


@_way
def parked_stalled(lab: Lab) -> RunHandle[Any]:
    @saga(name="exits", key="{key}", errors=[Declined])
    def exits(run: Run, key: str) -> None:
        run.step(reserve.si(), undo=release)
        raise SystemExit(1)

    handle = lab.start(exits, "k")
    for _ in range(10):
        with suppress(SystemExit):
            lab.advance(HOUR_S)
    return app.saga.get(handle.id)


@_way
def parked_undo_failed(lab: Lab) -> RunHandle[Any]:
    lab.fail("reserve!undo", ConnectionError("no"), times=None)
    handle = _started(lab, HOLDS)
    lab.advance(61)
    return handle


@_way
def parked_undo_unknown(lab: Lab) -> RunHandle[Any]:
    """Nobody knows whether `charge` has happened, and its undo needs its result."""
    lab.crash(after="charge")
    handle = _started(lab, UNKNOWN)
    lab.advance(61)
    return handle


# -- ended ------------------------------------------------------------------------------------------------------------
@_way
def completed(lab: Lab) -> RunHandle[Any]:
    return _started(lab, CHARGES)


@_way
def failed(lab: Lab) -> RunHandle[Any]:
    return _started(lab, DECLINES)


@_way
def cancelled(lab: Lab) -> RunHandle[Any]:
    handle = _started(lab, WAITS)
    handle.cancel()
    lab.drain()
    return handle


@_way
def cancelled_not_undone(lab: Lab) -> RunHandle[Any]:
    handle = _started(lab, WAITS)
    handle.cancel(compensate=False)
    lab.drain()
    return handle


@_way
def compensation_failed(lab: Lab) -> RunHandle[Any]:
    lab.fail("reserve!undo", ConnectionError("no"), times=None)
    handle = _started(lab, DECLINES)
    lab.advance(61)
    return handle
