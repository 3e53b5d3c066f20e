"""The shop's Celery app: messages are files of a folder, runs are rows of an SQLite file in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Final

from celery import Celery

from celery_saga import CelerySaga
from celery_saga.demo.messages import SCHEME

__all__ = ["FOLDER_VARIABLE", "app", "folder", "sagas", "use"]

FOLDER_VARIABLE: Final = "CELERY_SAGA_DEMO_FOLDER"
"""The environment variable that names the folder in which everything lives."""


def folder() -> Path:
    """Where everything lives."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path(tempfile.gettempdir()) / "celery-saga-demo")


def settings(place: Path) -> dict[str, Any]:
    """The app's settings for a folder."""
    messages = str(place / "messages")
    return {
        "broker_url": f"{SCHEME}://localhost",
        "broker_transport_options": {
            "data_folder_in": messages,  # the same one: who sends also receives
            "data_folder_out": messages,
            "control_folder": str(place / "control"),
            "processed_folder": str(place / "processed"),
            "store_processed": True,
            "polling_interval": 0.05,
        },
        "worker_enable_remote_control": False,
        "imports": ["celery_saga.demo.tasks"],
        "saga_sagas": ["celery_saga.demo.checkout:checkout"],
        "saga_database_url": f"sqlite:///{place / 'saga.db'}",
        # Short, so that a killed worker's step is taken up after 2 s and not 30 s.
        "saga_lease": 2.0,
        "saga_sweep_interval": 0.2,
    }


def use(place: Path) -> None:
    """Work in this folder from now on, in this process and in those that it starts; makes the folders."""
    for name in ("messages", "control", "processed", "orders", "tmp"):
        (place / name).mkdir(parents=True, exist_ok=True)
    os.environ[FOLDER_VARIABLE] = str(place)
    app.conf.update(settings(place))
    with app.connection_for_write() as connection:
        # Once, before others do it at the same time: kombu rewrites the file of an exchange.
        app.amqp.queues[app.conf.task_default_queue].bind(connection.channel()).declare()


app = Celery("shop")
app.conf.update(settings(folder()))
sagas = CelerySaga(app)
