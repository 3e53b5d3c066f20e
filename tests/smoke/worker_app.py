"""What a worker of these tests runs: pytest-celery puts its imports, the app and its settings where the names are."""

from __future__ import annotations

import os

from celery import Celery

from celery_saga import CelerySaga

imports = None

app = Celery("celery_test_app")
config = None

if config:
    app.config_from_object(config)

CelerySaga(app, database_url=os.environ["SMOKE_DATABASE_URL"])
