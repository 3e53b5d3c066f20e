"""The scenes of the demo: what goes wrong, what is done about it, and how each has to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from celery_saga.client.handle import RunHandle
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.demo import world
from celery_saga.demo.app import app
from celery_saga.demo.checkout import APPROVAL, Order, Receipt, checkout
from celery_saga.demo.stage import Stage
from celery_saga.demo.world import Trouble

__all__ = ["SCENES", "Director", "Ending", "Scene", "error_of"]


class Director(Protocol):
    """What a scene plays with; each verb is shown to whoever watches."""

    @property
    def stage(self) -> Stage:
        """The folder and the processes."""

    def tell(self, text: str) -> None:
        """Say what is done now."""

    def until(self, happens: Callable[[], bool], what: str) -> None:
        """Wait for something, while the run is shown."""

    def check(self, claim: str, *, holds: bool) -> None:
        """A claim about the way; one that does not hold makes the scene fail."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a scene has to end.

    Args:
        status: of the run.
        calls: all that reached gateway and warehouse, in order.
        error: class and argument of the error that ended it; None for none.
        charge_id: of the receipt; None where there is none.
        keys: how many different idempotency keys the gateway saw.
    """

    status: RunStatus
    calls: tuple[str, ...]
    error: str | None = None
    charge_id: str | None = None
    keys: int = 1


Play = Callable[[Director, "RunHandle[Receipt]", Order], None]


def _just_wait(director: Director, run: RunHandle[Receipt], order: Order) -> None:
    director.until(run.ready, "the end of the run")


@dataclass(frozen=True, slots=True)
class Scene:
    """One order and its story."""

    name: str
    title: str
    story: str
    order: Order
    ending: Ending
    trouble: Trouble = Trouble.NONE
    play: Play = field(default=_just_wait)


def _start_twice(director: Director, run: RunHandle[Receipt], order: Order) -> None:
    again = checkout.start(order)
    director.tell(f"a second checkout.start() for {order.id} finds the same run, {again.id[:8]}…")
    director.check("the second start finds the first run", holds=not again.created and again.id == run.id)
    director.until(run.ready, "the end of the run")
    director.check("both callers get the same receipt", holds=again.wait(10) == run.wait(10))


def _waits(run: RunHandle[Receipt]) -> Callable[[], bool]:
    return lambda: run.status is RunStatus.WAITING


def _approve(director: Director, order: Order) -> None:
    words = ("signal", f"{checkout.name}:{order.id}", APPROVAL.name, "--value", '{"approved": true}')
    director.tell(f"$ celery-saga -A celery_saga.demo.app signal {words[1]} {words[2]} --value '{words[4]}'")
    director.stage.command(*words)


def _approved(director: Director, run: RunHandle[Receipt], order: Order) -> None:
    director.until(_waits(run), "the wait for approval")
    director.check(
        "before the approval only the goods are reserved", holds=world.calls(order.id) == [f"reserve {order.id}"]
    )
    busy = [step.key for step in run.steps() if step.status in {StepStatus.SCHEDULED, StepStatus.RUNNING}]
    director.check("while it waits, no worker is busy with it", holds=not busy)
    director.tell("while it waits it is one row: no worker, no message. Another process approves:")
    _approve(director, order)
    director.until(run.ready, "the end of the run")


def _other_processes(director: Director, run: RunHandle[Receipt], order: Order) -> None:
    director.until(_waits(run), "the wait for approval")
    director.tell("the worker is stopped (SIGTERM), as for a deploy")
    director.stage.stop_worker()
    director.check("the first process did the reservation", holds=world.calls(order.id) == [f"reserve {order.id}"])
    director.tell("nothing runs any more. Another process approves:")
    _approve(director, order)
    director.tell(f"a new worker starts (pid {director.stage.start_worker()}) and goes on where the old one was")
    director.until(run.ready, "the end of the run")


def _killed(what: str) -> Play:
    """The worker is killed as soon as an attempt hangs, and another one is started."""

    def play(director: Director, run: RunHandle[Receipt], order: Order) -> None:
        director.until(lambda: any(entry.hangs for entry in world.entries(order.id)), "the call that hangs")
        director.stage.kill_worker()
        director.tell(f"the worker is killed {what}: kill -9, its pool too")
        pid = director.stage.start_worker()
        lease = f"{app.conf.saga_lease:g} s"
        director.tell(f"a new worker starts (pid {pid}) and goes on once the dead one's lease of {lease} has ended,")
        director.tell("because until then nobody can tell a dead worker from a slow one")
        director.until(run.ready, "the end of the run")

    return play


def _done(order: Order, *calls: str) -> Ending:
    return Ending(RunStatus.COMPLETED, (f"reserve {order.id}", *calls, f"dispatch {order.id}"), charge_id="ch_1")


def _failed(order: Order, error: str, *calls: str) -> Ending:
    return Ending(RunStatus.FAILED, (f"reserve {order.id}", *calls, f"release {order.id}"), error)


def _with_failures() -> tuple[Scene, ...]:
    o1, o2, o3, o4 = (Order(name, 500) for name in ("o1", "o2", "o3", "o4"))
    return (
        Scene(
            "happy_path",
            "Happy path",
            "Every step is an ordinary Celery task. The order is started twice, as by an impatient click.",
            o1,
            _done(o1, "charge 500"),
            play=_start_twice,
        ),
        Scene(
            "flaky_gateway",
            "Flaky gateway",
            "The first two charges get no answer. They are tried again with the same idempotency key.",
            o2,
            _done(o2, "charge 500", "charge 500", "charge 500"),
            Trouble.GATEWAY_FLAKY,
        ),
        Scene(
            "gateway_down",
            "Gateway down",
            "No charge gets an answer. After three tries the reservation is undone; there is no money to refund.",
            o3,
            _failed(o3, "GatewayTimeout", "charge 500", "charge 500", "charge 500"),
            Trouble.GATEWAY_DOWN,
        ),
        Scene(
            "out_of_stock",
            "Out of stock",
            "The last step fails. What was done is undone, last in first out: the money, then the goods.",
            o4,
            _failed(o4, "OutOfStock(o4)", "charge 500", "dispatch o4", "refund ch_1"),
            Trouble.OUT_OF_STOCK,
        ),
    )


def _with_people_and_crashes() -> tuple[Scene, ...]:
    o6, o9 = Order("o6", 200_000), Order("o9", 200_000)
    o7, o8 = Order("o7", 500), Order("o8", 500)
    return (
        Scene(
            "approval",
            "Human approval",
            "A large order waits, up to two days, for a person to approve it.",
            o6,
            _done(o6, "charge 200000"),
            play=_approved,
        ),
        Scene(
            "two_processes",
            "Approval, nothing runs",
            "The worker is stopped while the order waits. A fresh process approves, a fresh worker goes on.",
            o9,
            _done(o9, "charge 200000"),
            play=_other_processes,
        ),
        Scene(
            "killed_in_step",
            "Killed in mid-step",
            "The gateway has taken the money, but its answer never arrives: the worker is killed while it waits.",
            o7,
            _done(o7, "charge 500", "charge 500"),
            Trouble.CHARGE_HANGS,
            _killed("in the middle of charge"),
        ),
        Scene(
            "killed_between_undos",
            "Killed between two undos",
            "Out of stock again. The money is refunded, and the worker is killed before the goods are back.",
            o8,
            _failed(o8, "OutOfStock(o8)", "charge 500", "dispatch o8", "refund ch_1"),
            Trouble.RELEASE_HANGS,
            _killed("after the refund, before the release"),
        ),
    )


SCENES = (*_with_failures(), *_with_people_and_crashes())
"""In the order in which they are played."""


def error_of(run: RunHandle[Any]) -> str | None:
    """Class of the error that ended a run, with its argument if it is the order."""
    error = run.error
    if error is None:
        return None
    name = type(error).__name__
    return f"{name}({error.args[0]})" if name == "OutOfStock" else name
