"""The project of `tests.http.project` in a laboratory, and a client of its API that may do everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga.http import wsgi
from celery_saga.testing import Lab
from tests.http.client import Client
from tests.http.project import MAILS, app


@pytest.fixture
def lab() -> Iterator[Lab]:
    MAILS.clear()
    with Lab(app) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Client:
    return Client(wsgi(app, lambda action, run, request: "ann"))
