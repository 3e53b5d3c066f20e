"""The app of a consumer that is killed: its sagas are executed where they are started."""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery

from celery_saga import CelerySaga, Run, Signal, saga

app = Celery("consuming", set_as_current=True)
app.conf.update(task_always_eager=True, **json.loads(os.environ["CONSUMING_SETTINGS"]))
CelerySaga(app)


@app.task(name="consuming.tell")
def tell_task(word: str) -> str:
    """Once for each run."""
    with Path(os.environ["CONSUMING_LOG"]).open("a") as file:
        file.write(word + "\n")
    return word


@saga(name="tell")
def tell(run: Run, word: str) -> str:
    """One step."""
    return run.step(tell_task.si(word))


@saga(name="house-approval", signals=[Signal("go", str), Signal("never", str)])
def approval(run: Run) -> str:
    """Waits for a signal."""
    return run.wait_signal("go")
