"""A project whose configuration does not exist."""

from __future__ import annotations

from celery import Celery

from celery_saga import CelerySaga

app = Celery("broken")
app.config_from_object("tests.cli.no_such_settings")
CelerySaga(app)
