"""An OpenTelemetry collector: takes what processes send over OTLP/HTTP, and keeps it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """One span as it was sent; ids in hexadecimal, `parent` empty of a root, links and events by name."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Any]
    events: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)


class Collector:
    """What has come in so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._points: list[tuple[str, str, dict[str, Any], Any]] = []
        self.url = ""

    def spans(self, **attributes: Any) -> list[Span]:
        """Those with these attributes, dots written as double underscores."""
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        with self._lock:
            return [each for each in self._spans if wanted.items() <= each.attributes.items()]

    def all(self) -> list[Span]:
        """All spans."""
        return self.spans()

    def points(self, name: str) -> list[tuple[str, dict[str, Any], Any]]:
        """Of a metric: instance that has sent it, attributes, and a number, or the count of a histogram."""
        with self._lock:
            return [(instance, told, value) for found, instance, told, value in self._points if found == name]

    def take(self, path: str, body: bytes) -> None:
        """One request."""
        if path == "/v1/traces":
            spans = ExportTraceServiceRequest.FromString(body)
            found = [_span(x) for r in spans.resource_spans for s in r.scope_spans for x in s.spans]
            with self._lock:
                self._spans += found
            return
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            instance = _told(resource.resource.attributes).get("service.instance.id", "")
            for metric in (x for scope in resource.scope_metrics for x in scope.metrics):
                with self._lock:
                    self._points += [(metric.name, instance, *point) for point in _points(metric)]


def _points(metric: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        number = point.count if kind == "histogram" else getattr(point, point.WhichOneof("value"))
        yield _told(point.attributes), number


def _span(sent: Any) -> Span:
    links = [(each.trace_id.hex(), each.span_id.hex()) for each in sent.links]
    return Span(
        *(sent.name, sent.trace_id.hex(), sent.span_id.hex(), sent.parent_span_id.hex(), sent.kind),
        *(sent.start_time_unix_nano, sent.end_time_unix_nano, sent.status.code == 2, _told(sent.attributes)),
        *([each.name for each in sent.events], links),
    )


def _told(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
