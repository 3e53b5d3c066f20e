"""Sets OpenTelemetry's SDK up as a project does: in each process of the pool."""

from __future__ import annotations

import uuid
from typing import Any

from celery import signals


def connect(collector: str, *, instrumented: bool) -> None:
    """Have the processes of a worker send what they trace and count to a collector; called where the app is made."""

    def begin(**_: Any) -> None:
        set_up(collector, instrumented=instrumented)

    signals.worker_process_init.connect(begin, weak=False)


def set_up(collector: str, *, instrumented: bool) -> None:
    """Providers for this process."""
    from opentelemetry import metrics, trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    resource = Resource.create({"service.name": "shop", "service.instance.id": str(uuid.uuid4())})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector}/v1/traces")))
    trace.set_tracer_provider(tracing)
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(f"{collector}/v1/metrics"), export_interval_millis=500, export_timeout_millis=10_000
    )
    metrics.set_meter_provider(MeterProvider([reader], resource=resource))
    if instrumented:
        CeleryInstrumentor().instrument()
