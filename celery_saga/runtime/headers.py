"""The message headers that a run keeps from where it was started."""

from __future__ import annotations

import json
import sys
from typing import Any

from celery import signals

from celery_saga.runtime.names import COORDINATE, HEADER
from celery_saga.telemetry.harmless import harmless

__all__ = ["captured"]

_CELERYS = frozenset(
    {
        *("lang", "task", "id", "shadow", "eta", "expires", "group", "group_index", "retries", "timelimit"),
        *("root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting"),
        *("stamped_headers", "stamps", HEADER),
    }
)


def captured() -> dict[str, Any]:
    """What hooks of `before_task_publish` put on messages now, like a tenant, and the trace that is under way.

    The hooks are asked with headers that name no task and no id: so they add, and record nothing.
    """
    headers: dict[str, Any] = {"lang": "py"}  # not empty: that of an older protocol would be
    signals.before_task_publish.send(
        sender=COORDINATE,
        body=((), {}, {}),
        exchange="",
        routing_key="",
        declare=[],
        headers=headers,
        properties={},
        retry_policy={},
    )
    tracing = sys.modules.get("opentelemetry.propagate")  # if the project traces, it has been imported
    if tracing is not None:
        with harmless():
            tracing.inject(headers)
        with harmless():
            _inject_w3c(headers)
    return {name: value for name, value in headers.items() if name not in _CELERYS and _is_json(value)}


def _inject_w3c(headers: dict[str, Any]) -> None:
    """The form that the engine reads, whichever the project has chosen for its messages."""
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  # optional
        TraceContextTextMapPropagator,
    )

    TraceContextTextMapPropagator().inject(headers)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
