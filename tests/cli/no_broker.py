"""The project, with a broker that is down."""

from __future__ import annotations

from tests.cli.project import app

app.conf.update(broker_url="amqp://guest@127.0.0.1:1//", task_always_eager=False)
