"""A caller that traces: a process of its own, because OpenTelemetry's providers are those of a whole process."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from celery_saga import RunHandle
from tests.observing import sdk, shop


def main(words: dict[str, Any]) -> None:
    """Start what is asked for within a span `checkout page`, and print the run's id and the span's ids."""
    from opentelemetry import trace

    sdk.set_up(os.environ["SHOP_COLLECTOR"], instrumented=words.get("instrumented", True))
    found: dict[str, str] = {}
    with trace.get_tracer("web").start_as_current_span("page") as span:
        context = span.get_span_context()
        if "signal" in words:
            run: RunHandle[Any] = shop.app.saga.get(words["run"])
            run.signal(words["signal"], "go")
        else:
            run = getattr(shop, words["saga"]).start(*words.get("args", []))
        found = {"run": run.id, "trace": f"{context.trace_id:032x}", "span": f"{context.span_id:016x}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
