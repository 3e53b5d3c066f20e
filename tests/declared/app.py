"""An app whose worker has the handlers; another module is the same app for producers."""

from __future__ import annotations

import json
import os
from importlib import import_module

from celery import Celery

from celery_saga import CelerySaga
from tests.declared.definitions import checkout

app = Celery("declared")
app.conf.update(json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app, sagas=[checkout], sweep_interval=0.2)
if os.environ.get("WITH_HANDLERS"):
    import_module("tests.declared.handlers")
