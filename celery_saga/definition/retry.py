"""The retry policy, under the name that definitions import it by."""

from __future__ import annotations

from celery_saga.core.retry import Retry

__all__ = ["Retry"]
