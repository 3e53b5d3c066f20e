"""A long step that tells how far it is."""

import os
import time

from celery import Celery
from celery_saga import CelerySaga, Run, current_step, saga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))


@app.task
def export(rows: int) -> int:
    for row in range(1, rows + 1):
        time.sleep(0.02)  # the work on one row
        if current_step:  # a plain `export.delay()` has no run to tell
            current_step.progress(row, rows, "rows")
    return rows


@app.task
def publish(rows: int) -> str:
    return f"{rows} rows are out"


@saga(key="{name}")
def report(run: Run, name: str, rows: int = 100) -> str:
    return run.step(publish.si(run.step(export.si(rows))))
