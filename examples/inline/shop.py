"""A stock count of many short steps, by messages and inline."""

import os

from celery import Celery
from celery_saga import CelerySaga, Run, saga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))


@app.task
def count(shelf: int) -> int:
    return shelf % 7


@app.task(time_limit=60)  # a pool keeps it, so this step is always a message
def publish(total: int) -> str:
    return f"{total} pieces"


def _counted(run: Run, shelves: int) -> str:
    total = sum(run.step(count.si(shelf)) for shelf in range(shelves))
    return run.step(publish.si(total))


by_messages = saga(name="by_messages")(_counted)
inline = saga(name="inline", dispatch="inline")(_counted)
