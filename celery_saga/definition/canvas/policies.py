"""Policies of a step inside a stored canvas: what `step()` gave, as plain values and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from celery_saga.core.orders import StepSpec
from celery_saga.core.retry import Retry
from celery_saga.definition.step import StepOptions, spec_of

__all__ = ["policies_from_plain", "policies_to_plain"]

_SAME = {x.name for x in fields(StepSpec)} - {"undo", "retry", "options"}


class _StoredRetry(Retry):
    """A policy whose classes are known by name only: nothing is imported because data names it."""

    __slots__ = ("_plain",)

    def __init__(self, plain: Mapping[str, Any]) -> None:
        super().__init__(
            plain["max_attempts"],
            delay=plain["delay_s"],
            factor=plain["factor"],
            max_delay=plain["max_delay_s"],
            jitter=plain["jitter"],
        )
        self._plain = dict(plain)

    def to_plain(self) -> dict[str, Any]:
        return dict(self._plain)


def policies_to_plain(policies: StepOptions, message_options: Mapping[str, Any]) -> dict[str, Any]:
    """`name` and `spec`, each only where there is something to say.

    The `type` of a result is not among them: in a canvas, results go from task to task as they are stored.

    Args:
        message_options: options that go with the step's message.
    """
    spec = json.loads(spec_of(policies, message_options).to_text())
    plain: dict[str, Any] = {"spec": spec} if spec else {}
    if policies.name is not None:
        plain["name"] = policies.name
    return plain


def policies_from_plain(plain: Mapping[str, Any]) -> tuple[StepOptions, dict[str, Any]]:
    """The inverse of `policies_to_plain`: the policies, and the options of the message."""
    if "spec" not in plain:
        return StepOptions(name=plain.get("name")), {}
    spec = StepSpec.from_text(json.dumps(plain["spec"]))
    undo = spec.undo
    # Whatever else there is to say of a step has the same name in both.
    same: dict[str, Any] = {x.name: getattr(spec, x.name) for x in fields(StepOptions) if x.name in _SAME}
    policies = StepOptions(
        name=plain.get("name"),
        undo=None if undo is None else undo.call,
        undo_takes_none=undo is not None and undo.unknown == "call",
        undo_retry=None if undo is None else _retry(undo.retry),
        undo_unknown=None if undo is None else undo.unknown,
        retry=_retry(spec.retry),
        pivot=spec.is_pivot,
        **same,
    )
    return policies, dict(spec.options)


def _retry(plain: Mapping[str, Any] | None) -> Retry | None:
    return None if plain is None else _StoredRetry(plain)
