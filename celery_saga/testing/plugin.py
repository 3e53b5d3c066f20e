"""The pytest plug-in, a fixture `lab` that loads nothing of Celery, SQLAlchemy or our engine before it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from celery_saga.testing.lab import Lab

__all__ = ["lab"]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A `celery_saga.testing.Lab` for the project's Celery app, open during the test."""
    from celery_saga.testing.lab import Lab  # noqa: PLC0415 - only a test that asks for it pays for it

    with Lab() as opened:
        yield opened
