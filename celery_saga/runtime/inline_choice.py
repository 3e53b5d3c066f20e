"""Which steps the process that coordinates their run may execute itself."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

from celery import Celery
from celery.app.routes import MapRoute

from celery_saga.core import codec
from celery_saga.core.orders import RunSpec, StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.runtime.messages import exec_options
from celery_saga.runtime.names import COORDINATE
from celery_saga.runtime.services import Services
from celery_saga.runtime.step_task import SagaStep

__all__ = ["InlineChoice"]

logger = logging.getLogger("celery_saga.inline")

_LIMITS = ("time_limit", "soft_time_limit")
_MOST_ROUTES, _SHORT = 1000, 200
_LONG = 0.25  # of a slice
_REMEMBERED_S = 60.0

Place = tuple[Any, ...]


class InlineChoice:
    """The engine's `TakesInline` in a worker.

    A step says how it is executed, else its saga, else `saga_dispatch`. `inline` and `auto` are permissions: a step
    with limits of its own, which only a pool can keep, or with another queue than its run, is sent there as a message.
    With `auto` so is a task that has taken long here within the last minute.
    """

    def __init__(self, services: Services) -> None:
        self._app: Celery = services.app
        self._settings = services.settings
        self._is_off = services.eager or services.settings.step_timeout is not None
        self._long_until_s: dict[str, float] = {}  # tasks that `auto` sends, of the monotonic clock
        self._routes: dict[Any, Place] = {}
        self._step_keys: dict[tuple[str, str], Any] = {}  # by task and options
        self._told: set[tuple[str, str]] = set()

    def __call__(self, run: RunRecord, order: Order) -> bool:
        """Whether the step may be executed by the process that coordinates the run."""
        if self._is_off or order.kind is not StepKind.STEP:
            return False
        spec = _step_spec(order.spec_text)
        word = spec.dispatch or _dispatch_of(run.spec_text) or self._settings.dispatch
        if word not in ("inline", "auto"):
            return False
        obstacle = self._obstacle(run, order, spec)
        if obstacle is None and word == "auto" and time.monotonic() < self._long_until_s.get(order.task, 0.0):
            obstacle = "its task has lately taken long"
        if obstacle is not None:
            self._tell(order, obstacle, is_asked_for=word == "inline")
        return obstacle is None

    def _tell(self, order: Order, obstacle: str, *, is_asked_for: bool) -> None:
        """Once for each task and reason where it was asked for by name: else nobody finds out why."""
        level = logging.DEBUG
        if is_asked_for and (order.task, obstacle) not in self._told and len(self._told) < _MOST_ROUTES:
            self._told.add((order.task, obstacle))
            level = logging.INFO
        logger.log(level, "step %r (%s) is not executed inline but sent: %s", order.key, order.task, obstacle)

    def took(self, task: str, duration_s: float) -> None:
        """A step of this task was executed inline; a long one would rather have the workers of its own."""
        if duration_s > self._settings.inline_slice * _LONG:
            self._long_until_s[task] = time.monotonic() + _REMEMBERED_S

    def _obstacle(self, run: RunRecord, order: Order, spec: StepSpec) -> str | None:
        task: Any = self._app.tasks.get(order.task)
        if not isinstance(task, SagaStep):
            return "this process does not have its task"
        if spec.remote or getattr(spec, "transactional", False):
            return "it is remote or transactional"
        if spec.timeout_s is not None or any(spec.options.get(name) is not None for name in _LIMITS):
            return "it has a time-out or a time limit"
        if any(getattr(task, name, None) is not None for name in _LIMITS):
            return "its task has a time limit"
        if getattr(task, "rate_limit", None) is not None:
            return "its task has a rate limit"
        return self._is_elsewhere(run, order, spec)

    def _is_elsewhere(self, run: RunRecord, order: Order, spec: StepSpec) -> str | None:
        try:
            here, there = self._place_of_run(run), self._place_of_step(order, spec)
        except Exception as error:  # noqa: BLE001  # a router of the user's; who sends the message will tell
            return f"it cannot be routed ({type(error).__name__})"
        return None if here == there else f"it goes to {there[0]!r}, its run to {here[0]!r}"

    # -- routes ------------------------------------------------------------------------------------------------
    def _place_of_run(self, run: RunRecord) -> Place:
        name = run.queue or self._settings.queue
        return self._place(("run", name), COORDINATE, {"queue": name} if name else {})

    def _place_of_step(self, order: Order, spec: StepSpec) -> Place:
        known = self._routes.get(self._step_keys.get((order.task, order.spec_text)))
        if known is not None:
            return known
        options = {**exec_options(self._app, order.task), **spec.options}
        options = {key: value for key, value in options.items() if key not in (*_LIMITS, "headers")}
        key = (order.task, repr(sorted(options.items())))
        place = self._place(key, order.task, options, order.args_text)
        if key in self._routes and len(self._step_keys) < _MOST_ROUTES and len(order.spec_text) <= _SHORT:
            self._step_keys[order.task, order.spec_text] = key
        return place

    def _place(self, key: Any, name: str, options: dict[str, Any], args_text: str = "[[], {}]") -> Place:
        """Where messages go; kept, unless a router of the user's might look at more than the name."""
        found = self._routes.get(key)
        if found is not None:
            return found
        router: Any = self._app.amqp.router
        args, kwargs = codec.decode(args_text)
        route = router.route(options, name, tuple(args), dict(kwargs), self._app.tasks.get(name))
        queue = route.get("queue")
        place = (getattr(queue, "name", queue), str(route.get("exchange")), route.get("routing_key"))
        if len(self._routes) < _MOST_ROUTES and all(isinstance(each, MapRoute) for each in router.routes):
            self._routes[key] = place
        return place


@functools.lru_cache(maxsize=512)
def _step_spec(text: str) -> StepSpec:
    return StepSpec.from_text(text)


@functools.lru_cache(maxsize=512)
def _dispatch_of(run_spec_text: str) -> str | None:
    return RunSpec.from_text(run_spec_text).dispatch
