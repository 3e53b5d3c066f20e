"""The app of these tests' workers: settings from the environment, an older deploy where it says so."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from celery_saga import CelerySaga
from tests.faults import points

SETTINGS, MODULES, MEEK = "FAULTS_SETTINGS", "FAULTS_MODULES", "FAULTS_MEEK"
"""Environment variables: the app's settings as JSON; modules with tasks and sagas, comma-separated; where it is set,
the app declares nothing at its broker."""

settings: dict[str, Any] = json.loads(os.environ[SETTINGS])
app = Celery("faults", set_as_current=True)
app.conf.update(**settings)
if os.environ.get(MEEK):
    app.conf.task_queues = [Queue("celery", Exchange("celery", no_declare=True), no_declare=True)]
CelerySaga(app)
points.arm()
for name in os.environ[MODULES].split(","):
    importlib.import_module(name)
