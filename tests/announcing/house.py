"""An app whose runs are executed where they are started, with a real broker for what it announces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, _state

from celery_saga import CelerySaga, Run, Signal, saga
from celery_saga.client import binding
from celery_saga.core.lifecycle import Purpose
from celery_saga.runtime.assembly import relays_of
from celery_saga.runtime.relay import Relay

GO = Signal("go", str)


class OutOfStock(Exception):
    """Nothing left."""


class House:
    """App, sagas and relays of one test.

    Args:
        url: of the saga database; its tables are made here.
        settings: of the app.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        self.app = Celery("announcing", set_as_current=False)
        self.app.conf.update(saga_database_url=url, task_always_eager=True, task_store_eager_result=True, **settings)
        self.saga = CelerySaga(self.app)
        self.saga.migrate()
        self.calls: list[str] = []
        self._make_tasks()

    def relay(self, purpose: Purpose = Purpose.EVENT) -> Relay:
        """A fresh one, as a sweeper that has just begun has it."""
        services = self.saga.services
        wanted = {"event": Purpose.EVENT, "result": Purpose.RESULT}[purpose.value]
        (found,) = [each for each in relays_of(services) if each._purpose is wanted]
        return found

    def drain(self, purpose: Purpose = Purpose.EVENT) -> int:
        """What one relay delivers now."""
        relay = self.relay(purpose)
        try:
            return relay.drain()
        finally:
            relay.close()

    def close(self) -> None:
        """Leave no connection open."""
        self.saga.services.close()
        self.app.close()
        pool = self.app.__dict__.get("_pool") or self.app._pool
        if pool is not None:
            pool.force_close_all()

    def _make_tasks(self) -> None:
        calls = self.calls

        @self.app.task(name="house.reserve", shared=False)
        def reserve(order: str) -> str:
            calls.append(f"reserve {order}")
            return f"r-{order}"

        @self.app.task(name="house.release", shared=False)
        def release(reservation: str) -> None:
            calls.append(f"release {reservation}")

        @self.app.task(name="house.ship", shared=False)
        def ship(order: str) -> str:
            calls.append(f"ship {order}")
            if order == "none":
                raise OutOfStock(order)
            return f"s-{order}"

        @saga(name="order", errors=[OutOfStock])
        def order(run: Run, number: str) -> str:
            run.step(reserve.si(number), undo=release)
            return run.step(ship.si(number))

        @saga(name="house-approval", signals=[GO])
        def approval(run: Run) -> str:
            return run.wait_signal(GO)

        @saga(name="buggy")
        def buggy(run: Run) -> str:
            raise RuntimeError("a bug")

        @saga(name="rich")
        def rich(run: Run, value: Any) -> Any:
            return value

        self.order, self.approval, self.buggy, self.rich = order, approval, buggy, rich


@contextmanager
def house_with(url: str, **settings: Any) -> Iterator[House]:
    """A house that its sagas are started in; everything is closed afterwards."""
    before = getattr(_state._tls, "current_app", None)
    made = House(url, **settings)
    resolver = binding.set_resolver(lambda _saga: made.saga)
    try:
        yield made
    finally:
        binding.set_resolver(resolver)
        made.close()
        _state._set_current_app(before) if before is not None else None
