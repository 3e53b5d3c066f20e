"""Redeeming a token: the signal that it stands for is sent, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from celery_saga.client import purity
from celery_saga.client.handle import RunHandle
from celery_saga.engine import tokens
from celery_saga.engine.engine import Engine

__all__ = ["redeem"]

_WHERE = "app.saga.redeem()"


def redeem(
    engine: Engine,
    get: Callable[[str], RunHandle[Any]],
    keys: Sequence[str],
    token: str,
    value: object,
    error: BaseException | None,
) -> RunHandle[Any]:
    """See `CelerySaga.redeem`.

    Args:
        get: a handle of the run with this id.
        keys: as the setting `saga_secret_keys`.
    """
    purity.forbid(_WHERE, "redeem it in a step's task")
    found = tokens.redeemable(engine.world, keys, token, _WHERE)
    handle = get(found.run_id)
    handle.signal(found.signal, value, id=found.id, error=error)  # type: ignore[call-overload]
    return handle
