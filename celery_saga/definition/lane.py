"""Lanes as a saga names them: a name, a `Lane`, a template over the arguments, or a function of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from celery_saga.core.admission import LaneSpec
from celery_saga.core.asked import MAX_NAME, is_name, shown
from celery_saga.core.retry import seconds
from celery_saga.definition.keys import called, template
from celery_saga.definition.names import check_name
from celery_saga.definition.payload import Payload
from celery_saga.errors import DefinitionError, InvalidPayload

__all__ = ["MAX_CAP", "Lane", "LaneChoice", "LaneOption", "check_hold", "lane_choice", "lane_spec"]

MAX_CAP = 2_147_483_647
_HOLDS = ("active", "life")
_SHORTEST_WINDOW_S = 0.001


@dataclass(frozen=True)
class Lane:
    """What runs queue in: at most `cap` of them are active at a time, and at most `limit` become so in any `window`.

    Args:
        name: 1 to 200 characters; one with `{parameter}` in it, as in key=, is a lane for each value.
        cap: how many runs at a time, from 1; None: any number.
        hold: `active`: a run that waits, backs off or is parked gives its slot back; `life`: from when it is let in to
            its end.
        limit: how many runs become active in any `window`, from 1; None: no such limit.
        window: in seconds or as timedelta, at least a millisecond; goes with `limit`.
    Raises:
        DefinitionError: a value that is not allowed; nothing was registered.
    """

    name: str
    cap: int | None = field(default=1, kw_only=True)
    hold: Literal["active", "life"] = field(default="active", kw_only=True)
    limit: int | None = field(default=None, kw_only=True)
    window: float | timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "Lane(name)")
        self.spec  # noqa: B018 - checks the others

    @property
    def spec(self) -> LaneSpec:
        """What is said of it."""
        return lane_spec(f"lane {self.name!r}:", cap=self.cap, hold=self.hold, limit=self.limit, window=self.window)


LaneOption = str | Lane | Callable[..., str]
"""What `lane=` takes."""


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """A `lane=`, checked: `name_of` gives the lane of a run by its arguments; `spec` is what is said of it, if any."""

    name_of: str | Callable[[Mapping[str, Any]], str]
    spec: LaneSpec | None = None

    def name(self, payload: Payload, input_text: str, saga: str) -> str:
        """The lane of a run with this input.

        Raises:
            InvalidPayload: the arguments give no name of a lane; nothing was written.
        """
        if isinstance(self.name_of, str):
            return self.name_of
        args, kwargs = payload.decode(input_text)
        call = payload.signature.bind(*args, **kwargs)
        call.apply_defaults()
        name = self.name_of(call.arguments)
        if is_name(name):
            return name
        raise InvalidPayload(
            f"saga {saga!r}, lane=: it must be text of 1 to {MAX_NAME} characters without control characters, got "
            f"{shown(name)}; nothing was written.",
            path="lane",
        )


def lane_choice(given: object, signature: inspect.Signature, saga: str) -> LaneChoice | None:
    """A `lane=` as it is meant; None: none.

    Args:
        signature: of the body, without the run.
    Raises:
        DefinitionError: something else, or as of a template in key=; nothing was registered.
    """
    if given is None:
        return None
    if isinstance(given, Lane):
        text, spec = given.name, given.spec
    elif isinstance(given, str):
        text, spec = check_name(given, f"saga {saga!r}: lane="), None
    elif callable(given):
        return LaneChoice(called(given, signature))
    else:
        raise DefinitionError(
            f"saga {saga!r}: lane= takes a name, a Lane, a template like 'tenant:{{order.tenant}}' or a function of "
            f"the arguments, got {given!r}; nothing was registered."
        )
    return LaneChoice(template(text, signature.parameters, saga, what="lane") if "{" in text else text, spec)


def lane_spec(where: str, *, cap: object, hold: object, limit: object, window: Any) -> LaneSpec:
    """What is said of a lane, checked.

    Raises:
        DefinitionError: a value that is not allowed, named; nothing was changed.
    """
    if (limit is None) != (window is None):
        raise DefinitionError(f"{where} limit= and window= go together; nothing was changed.")
    window_s = None
    if window is not None:
        window_s = seconds(window, f"{where} window=", minimum_s=_SHORTEST_WINDOW_S)
    return LaneSpec(_count(cap, f"{where} cap="), check_hold(hold, where), _count(limit, f"{where} limit="), window_s)


def check_hold(hold: object, where: str) -> str:
    """`active` or `life`.

    Raises:
        DefinitionError: something else; nothing was changed.
    """
    if isinstance(hold, str) and hold in _HOLDS:
        return hold
    raise DefinitionError(f"{where} hold= must be 'active' or 'life', got {shown(hold)}; nothing was changed.")


def _count(value: object, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CAP:
        raise DefinitionError(
            f"{what} must be a whole number from 1 to {MAX_CAP}, got {shown(value)}; nothing was changed."
        )
    return value
