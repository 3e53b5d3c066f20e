"""The log of a body: silent while the body is only replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

__all__ = ["RunLog"]


class RunLog(logging.LoggerAdapter[logging.Logger]):
    """Logs under `celery_saga.saga.<name>` with the run's id, key and generation as extra fields.

    Args:
        is_replaying: the body is between two calls that are recorded already.
    """

    def __init__(self, saga: str, extra: Mapping[str, object], is_replaying: Callable[[], bool]) -> None:
        super().__init__(logging.getLogger(f"celery_saga.saga.{saga}"), dict(extra))
        self._is_replaying = is_replaying

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that logging calls
        """Whether a message of this level is logged here and now."""
        return not self._is_replaying() and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the run's fields to those that the call gives."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
