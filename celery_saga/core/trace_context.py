"""Where a run is in traces: which span is its own, which one it was started in, by W3C Trace Context alone.

Theory of operation. A run has one span a generation, emitted when that ends. Its id follows from run id and generation,
so every process can name it as the parent of a step long before it is emitted, and whoever emits it makes the same one.
The headers that a run keeps hold the `traceparent` of the span that it was started in: the run's trace is that one's,
through all retries, recoveries and children. A run that begins again for ever gets a trace of its own each time, which
is linked to the one before; so does a detached child. A run that nobody traced has a trace whose id is its own.

Source: W3C Trace Context, level 2, 2024, section 3.2.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_saga.core.records import RunRecord

PARENT, STATE, LINK = "traceparent", "tracestate", "saga_traceparent"
"""Headers of a run: the span that it was started in, what vendors add to that, and the one that it only comes from."""

_FORM = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A span. `trace_id` has 128 bits and `span_id` 64, none of them 0."""

    trace_id: int
    span_id: int
    sampled: bool = True

    def to_text(self) -> str:
        """As a `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"


def from_text(text: object) -> Place | None:
    """The place of a `traceparent`; None: it is none."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    trace_id, span_id, flags = (int(each, 16) for each in found.groups())
    return Place(trace_id, span_id, bool(flags & _SAMPLED)) if trace_id and span_id else None


def headers_of(run: RunRecord) -> dict[str, Any]:
    """What the run keeps of where it was started."""
    return dict(json.loads(run.headers_text)) if run.headers_text not in {"", "{}"} else {}


def span_id_of(run_id: str, generation: int) -> int:
    """The id of a run's own span."""
    return _number(f"span\n{run_id}\n{generation}", 8)


def trace_id_of(run_id: str, generation: int) -> int:
    """The id of the trace of a run that was started in none."""
    return _number(f"trace\n{run_id}\n{generation}", 16)


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def place_of(run: RunRecord, headers: Mapping[str, Any]) -> Place | None:
    """The run's own span, in the trace that it was started in; None: it was started in none."""
    parent = from_text(headers.get(PARENT))
    return None if parent is None else Place(parent.trace_id, span_id_of(run.id, run.generation), parent.sampled)


def sent_headers(run: RunRecord) -> dict[str, Any]:
    """The headers of the run's messages: what is executed for it belongs to its own span."""
    headers = headers_of(run)
    place = place_of(run, headers) if PARENT in headers else None
    headers.pop(LINK, None)
    return headers if place is None else {**headers, PARENT: place.to_text()}


def of_child(parent: RunRecord, *, is_detached: bool) -> str:
    """The headers of a run that another one starts: in the same trace, or where it is detached linked to it."""
    if not _is_traced(parent):
        return parent.headers_text
    headers = headers_of(parent)
    place = place_of(parent, headers)
    if is_detached:
        return json.dumps(_apart(headers, place or _alone(parent)))
    headers.pop(LINK, None)
    # Without a place of its own it finds that of its parent, see `telemetry.places`.
    return json.dumps(headers if place is None else {**headers, PARENT: place.to_text()})


def renewed(run: RunRecord) -> str:
    """The headers of a run that begins again with other input: a trace of its own, linked to the one so far."""
    if not _is_traced(run):
        return run.headers_text
    headers = headers_of(run)
    return json.dumps(_apart(headers, place_of(run, headers) or _alone(run)))


def _is_traced(run: RunRecord) -> bool:
    """It was started in a trace, or comes from a run that was; others cost nothing."""
    return PARENT in run.headers_text or LINK in run.headers_text


def _alone(run: RunRecord) -> Place:
    return Place(trace_id_of(run.id, run.generation), span_id_of(run.id, run.generation))


def _apart(headers: Mapping[str, Any], place: Place) -> dict[str, Any]:
    kept = {name: value for name, value in headers.items() if name not in (PARENT, STATE)}
    return {**kept, LINK: place.to_text()}
