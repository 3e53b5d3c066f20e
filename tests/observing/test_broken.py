"""What a project has put into OpenTelemetry may raise wherever it is called: no run is touched."""

from __future__ import annotations

import subprocess
import sys

from tests.workers import ROOT

_PROGRAM = """
import logging

from celery import Celery
from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import NoOpMeter, NoOpMeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from celery_saga import CelerySaga, Run, saga

logging.basicConfig(level=logging.ERROR)
fault, called = "", []


def reach(place):
    if place == fault:
        called.append(place)
        raise RuntimeError(place)


class Processor(SpanProcessor):
    def on_start(self, span, parent_context=None):
        reach("on_start")

    def on_end(self, span):
        reach("on_end")


class Sampling(Sampler):
    def should_sample(self, *args, **kwargs):
        reach("sampler")
        return ALWAYS_ON.should_sample(*args, **kwargs)

    def get_description(self):
        return "raises"


class Instrument:
    def add(self, *args):
        reach("counter")

    def record(self, *args):
        reach("histogram")


class Meter(NoOpMeter):
    def create_counter(self, *args, **kwargs):
        return Instrument()

    create_histogram = create_counter


class Meters(NoOpMeterProvider):
    def get_meter(self, name, *args, **kwargs):
        return Meter(name)


class Propagator(TextMapPropagator):
    fields = set()

    def extract(self, carrier, context=None, getter=None):
        return context

    def inject(self, carrier, context=None, setter=None):
        reach("propagator")


tracing = TracerProvider(sampler=Sampling())
tracing.add_span_processor(Processor())
trace.set_tracer_provider(tracing)
metrics.set_meter_provider(Meters())
propagate.set_global_textmap(Propagator())
app = Celery("broken", set_as_current=True)
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app).migrate()
done = []


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("it has no text")


@app.task
def book(text):
    done.append("book")
    return text


@app.task
def unbook(text):
    done.append("unbook")


@app.task
def refuse():
    raise Mute


@saga(name="tel_broken")
def trip(run: Run, text: str) -> str:
    run.step(book.si(text), undo=unbook)
    if run.wait_signal("go", type=bool):
        return text
    run.step(refuse.si())


for fault in ("", "on_start", "on_end", "sampler", "counter", "histogram", "propagator"):
    done.clear()
    good, bad = trip.start("a"), trip.start("b")
    good.signal("go", True)
    bad.signal("go", False)
    assert (good.refresh().status, bad.refresh().status) == ("completed", "failed"), fault
    assert done == ["book", "book", "unbook"], (fault, done)
    assert not fault or fault in called, fault
print("untouched")
"""


def test_whatever_raises_in_a_projects_telemetry_touches_no_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.splitlines()[-1:] == ["untouched"], done.stderr[-4000:]
    assert "telemetry failed; the run is not touched by that" in done.stderr
