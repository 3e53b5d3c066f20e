"""The plug-in's fixture, also where the distribution is not installed."""

from __future__ import annotations

from celery_saga.testing.plugin import lab as lab  # noqa: PLC0414 - pytest finds it here
