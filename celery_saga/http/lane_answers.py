"""Models of what the routes about lanes answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from celery_saga.http.answers import Instant

__all__ = ["ForgottenAnswer", "LaneAnswer", "LanesAnswer", "UnpausedAnswer"]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LaneAnswer(_Answer):
    """A lane, or all runs of a saga, or all runs: what is said of it, and how it is used."""

    kind: Literal["lane", "saga", "all"]
    name: str
    cap: int | None = Field(description="Runs at a time; null: any number.")
    hold: str
    limit: int | None
    window_s: float | None
    source: str
    held: int
    queued: int
    paused_at: Instant | None
    paused_by: str | None
    paused_reason: str | None
    limited_until: Instant | None


class LanesAnswer(_Answer):
    """All lanes, and the sagas with a cap or a pause, by name."""

    lanes: list[LaneAnswer]


class UnpausedAnswer(_Answer):
    """What was let go on; `changed`: it was paused, or kept closed by a limit that a step has met."""

    saga: str | None
    lane: str | None
    changed: bool


class ForgottenAnswer(_Answer):
    """Which lane was deleted; `changed`: it was there before."""

    lane: str
    changed: bool
