"""A Celery project that knows no saga."""

from __future__ import annotations

import os

from celery import Celery

from celery_saga import CelerySaga

app = Celery("empty")
app.conf.update(broker_url="memory://", task_always_eager=True, saga_database_url=os.environ["TEST_DATABASE_URL"])
CelerySaga(app)
