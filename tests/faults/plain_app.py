"""The same tasks by name in a worker without celery_saga: each call that reaches one leaves a row that says so."""

from __future__ import annotations

import json
import os
from typing import Any

import psycopg2
from celery import Celery

settings: dict[str, Any] = json.loads(os.environ["FAULTS_SETTINGS"])
app = Celery("plain")
app.conf.update(**{name: value for name, value in settings.items() if not name.startswith("saga_")})


def _stolen(*args: Any, **kwargs: Any) -> None:
    with psycopg2.connect(os.environ["FAULTS_LEDGER"]) as connection, connection.cursor() as cursor:
        row = ("plain", "stolen", repr((args, kwargs)), 0, os.getpid(), "stolen")
        cursor.execute("INSERT INTO fx (run, key, token, attempt, pid, told) VALUES (%s, %s, %s, %s, %s, %s)", row)


for _name in ("faults.do", "faults.undo", "faults.c", "faults.stubborn"):
    app.task(name=_name)(_stolen)
