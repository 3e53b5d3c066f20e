"""A Celery project whose settings say what the clock starts; a worker and a beat of it are real processes."""

from __future__ import annotations

import json
import os

from celery import Celery

from celery_saga import CelerySaga, Run, saga

app = Celery("schedules_project")
app.conf.update(json.loads(os.environ["SHOP_SETTINGS"]))
app.conf.beat_schedule = {"plain": {"task": "saga.schedules_tick", "schedule": 0.5, "args": ("beat",)}}
CelerySaga(app)


@app.task(name="schedules.write", shared=False)
def write(text: str) -> str:
    """A step."""
    return text


@saga(name="schedules_tick")
def tick(run: Run, text: str = "schedule") -> str:
    """One step."""
    return run.step(write.si(text))
