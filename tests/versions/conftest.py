"""A house for each test, on a database in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.house import House


@pytest.fixture
def house() -> Iterator[House]:
    """Everything of celery_saga but Celery's transport."""
    with House("sqlite://") as built:
        yield built
