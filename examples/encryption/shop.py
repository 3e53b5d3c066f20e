"""A patient's report, of which nothing stands in the saga database in clear."""

import os

from celery import Celery
from celery_saga import CelerySaga, Run, Signal, saga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(
    app,
    database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"),
    codec="sealing:Sealing",
    offload="sealing:Folder",
    offload_above=20_000,
)

READ = Signal("read", str)


@app.task
def write(patient: str, pages: int) -> str:
    return f"{patient}: nothing to worry about. " * 40 * pages


@app.task
def send(report: str, to: str) -> int:
    return len(report)


@saga(key="{number}", signals=[READ])
def report(run: Run, number: str, patient: str, pages: int) -> str:
    text = run.step(write.si(patient, pages))
    doctor = run.wait_signal(READ)
    characters = run.step(send.si(text, doctor))
    return f"{characters} characters, read by {doctor}"
