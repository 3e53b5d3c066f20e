"""Whether this process traces and counts; nothing of OpenTelemetry is imported to find out."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_counting", "is_tracing"]

_SILENT = frozenset({"ProxyTracerProvider", "NoOpTracerProvider", "_ProxyMeterProvider", "NoOpMeterProvider"})


def is_tracing() -> bool:
    """A tracer provider is set."""
    api: Any = sys.modules.get("opentelemetry.trace")
    return api is not None and _is_set(getattr(api, "get_tracer_provider", None))


def is_counting() -> bool:
    """A meter provider is set."""
    api: Any = sys.modules.get("opentelemetry.metrics")
    return api is not None and _is_set(getattr(api, "get_meter_provider", None))


def _is_set(get: Any) -> bool:
    return get is not None and type(get()).__name__ not in _SILENT
