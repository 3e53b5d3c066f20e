"""A laboratory with the sagas that are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga.testing import Lab
from tests.retention import shop


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(shop.app) as opened:
        yield opened
