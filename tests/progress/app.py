"""An app whose steps report their progress."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from celery import Celery

from celery_saga import CelerySaga, Run, current_step, saga

app = Celery("progress")
app.conf.update(json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app)
FOLDER = Path(os.environ["SHOP_LOG"]).parent


@app.task(name="progress.count", shared=False)
def count(name: str, total: int) -> float:
    """Reports each number; in the middle it waits for a file. How long its reports took, in seconds."""
    spent_s = 0.0
    for number in range(1, total + 1):
        begun_s = time.perf_counter()
        current_step.progress(number, total, f"{name} {number}")
        spent_s += time.perf_counter() - begun_s
        while number == total // 2 and not (FOLDER / "go").exists():
            time.sleep(0.02)
    return spent_s


@app.task(name="progress.failing", shared=False)
def failing() -> None:
    """Gets half the way."""
    current_step.progress(1, 2, "then it breaks")
    current_step.progress(1.5, 2)
    raise LookupError("broken")


@saga
def counted(run: Run, total: int) -> float:
    """One long step."""
    return float(run.step(count.si("number", total)))


@saga(errors=[LookupError])
def breaking(run: Run) -> None:
    """One step that fails."""
    run.step(failing.si())
