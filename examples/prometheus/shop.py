"""A worker that Prometheus can scrape: `celery -A shop worker -P threads`."""

from __future__ import annotations

import os

from celery import Celery, signals
from celery_saga import CelerySaga, Run, saga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
app.conf.broker_connection_retry_on_startup = True
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "sqlite:///shop.db"))


@signals.worker_init.connect
def expose_metrics(**_: object) -> None:
    """Serve the metrics of this process on port 9464, the one that OpenTelemetry's exporters use."""
    from opentelemetry import metrics
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import start_http_server

    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    start_http_server(int(os.environ.get("SHOP_METRICS_PORT", "9464")), "127.0.0.1")


@app.task(name="shop.reserve")
def reserve(order: str) -> str:
    """Take the goods off the shelf."""
    return f"reserved {order}"


@app.task(name="shop.release")
def release(reservation: str) -> None:
    """Put them back."""


@app.task(name="shop.charge")
def charge(order: str, cents: int) -> str:
    """Take the money; nothing is sold for nothing."""
    if cents <= 0:
        raise ValueError("there is nothing to charge")
    return f"charged {cents}"


@saga
def checkout(run: Run, order: str, cents: int) -> str:
    """Reserve, then charge."""
    run.step(reserve.si(order), undo=release)
    return run.step(charge.si(order, cents))
