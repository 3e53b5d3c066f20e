"""A Celery project with a graph, for the command line."""

from __future__ import annotations

import os

from celery import Celery

from celery_saga import CelerySaga, Saga

app = Celery("graphs")
app.conf.update(broker_url="memory://", task_always_eager=True, saga_database_url=os.environ["TEST_DATABASE_URL"])
CelerySaga(app)

ASKING = Saga.from_graph(
    {
        "name": "d-project",
        "version": 1,
        "start": "ask",
        "states": {"ask": {"signal": "go", "on": {"signal": "done"}}, "done": {"end": True}},
    },
    key=lambda _: "one",
)
