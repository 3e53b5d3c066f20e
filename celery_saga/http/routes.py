"""The route table: what is served, by which action it is allowed, what it takes and what it answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from celery_saga.http import answers, asked, lane_answers
from celery_saga.http.access import Action
from celery_saga.http.call import Answer, Call
from celery_saga.http.handlers import lanes, reading, schedules, starting, steering

__all__ = ["ROUTES", "Route"]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. Its summary is the first line of its handler's docstring.

    `action` is what the authorizer is asked about; what it is about follows from the path: a run (`{run}`), a saga that
    is to be started (`{saga}`), or nothing in particular. `later`: the handler asks the authorizer, since it is the
    body that tells which run it is about. `success` are its statuses where all goes well; `refusals` are those of
    errors, besides those that every route has.
    """

    method: str
    path: str
    action: Action
    handler: Callable[[Call], Answer]
    answer: type[BaseModel]
    body: type[BaseModel] | None = None
    query: type[BaseModel] = asked.NoQuery
    success: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    later: bool = False
    pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        object.__setattr__(self, "pattern", re.compile(pattern))

    @property
    def name(self) -> str:
        """Names the route among all: its handler's module and name."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

    @property
    def summary(self) -> str:
        """One sentence."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


def _read(
    path: str,
    handler: Callable[[Call], Answer],
    answer: type[BaseModel],
    query: type[BaseModel] = asked.NoQuery,
    *refusals: int,
) -> Route:
    about = (404, 410) if "{run}" in path else (404,) if "{" in path else ()
    return Route("GET", path, "read", handler, answer, query=query, refusals=(*about, *refusals))


def _act(verb: str, action: Action, handler: Callable[[Call], Answer], body: type[BaseModel]) -> Route:
    return Route("POST", f"/runs/{{run}}/{verb}", action, handler, answers.RunAnswer, body, refusals=(404, 409, 410))


def _of_schedule(
    method: str,
    handler: Callable[[Call], Answer],
    answer: type[BaseModel],
    body: type[BaseModel] | None = None,
    *,
    verb: str = "",
) -> Route:
    """Who may start runs of a saga may say when they start."""
    return Route(method, f"{_SCHEDULE}{verb}", "start", handler, answer, body, refusals=(404,))


_SCHEDULE = "/sagas/{saga}/schedules/{schedule}"

ROUTES: Final[tuple[Route, ...]] = (
    _read("/sagas", starting.sagas, answers.SagasAnswer),
    _read("/sagas/{saga}", starting.saga, answers.SagaAnswer, asked.SagaQuery),
    _read("/sagas/{saga}/diagram", starting.diagram, answers.DiagramAnswer, asked.SagaQuery, 409),
    Route(
        "POST",
        "/sagas/{saga}/runs",
        "start",
        starting.start,
        answers.StartedAnswer,
        asked.Start,
        success=(200, 201),
        refusals=(404, 409, 410),
    ),
    Route(
        "POST",
        "/sagas/{saga}/signals",
        "signal",
        steering.signal_key,
        answers.DeliveryAnswer,
        asked.KeyedSignal,
        refusals=(404, 409, 410),
        later=True,
    ),
    _read("/schedules", schedules.listing, answers.SchedulesAnswer, asked.SchedulesQuery),
    _read(_SCHEDULE, schedules.show, answers.ScheduleAnswer),
    _read(f"{_SCHEDULE}/fires", schedules.fires, answers.FiresAnswer, asked.FiresQuery),
    _of_schedule("PUT", schedules.put, answers.ScheduleAnswer, asked.Schedule),
    _of_schedule("DELETE", schedules.remove, answers.RemovedAnswer),
    _of_schedule("POST", schedules.pause, answers.ScheduleAnswer, asked.Reasoned, verb="/pause"),
    _of_schedule("POST", schedules.unpause, answers.ScheduleAnswer, asked.Reasoned, verb="/unpause"),
    _read("/lanes", lanes.listing, lane_answers.LanesAnswer),
    Route("POST", "/lanes/pause", "cancel", lanes.pause, lane_answers.LaneAnswer, asked.Pause, refusals=(404,)),
    Route("POST", "/lanes/unpause", "retry", lanes.unpause, lane_answers.UnpausedAnswer, asked.Unpause),
    Route(
        "POST", "/lanes/forget", "cancel", lanes.forget, lane_answers.ForgottenAnswer, asked.ForgetLane, refusals=(409,)
    ),
    _read("/runs", reading.runs, answers.RunsAnswer, asked.RunsQuery),
    _read("/desk", reading.desk, answers.DeskAnswer, asked.DeskQuery),
    _read("/runs/{run}", reading.run, answers.ShownRunAnswer, asked.RunQuery),
    _read("/runs/{run}/steps", reading.steps, answers.StepsAnswer, asked.StepsQuery),
    _read("/runs/{run}/history", reading.history, answers.HistoryAnswer, asked.HistoryQuery),
    _read("/runs/{run}/events", reading.events, answers.EventsAnswer, asked.EventsQuery, 429),
    _read("/runs/{run}/waiting", reading.waiting, answers.WaitingAnswer),
    _read("/runs/{run}/progress", reading.progress, answers.ProgressAnswer),
    _read("/runs/{run}/export", reading.export, answers.ExportAnswer),
    _read("/runs/{run}/diagram", reading.diagram, answers.DiagramAnswer),
    Route(
        "POST",
        "/runs/{run}/signals",
        "signal",
        steering.signal,
        answers.DeliveryAnswer,
        asked.Signal,
        refusals=(404, 409, 410),
    ),
    Route(
        "POST",
        "/runs/{run}/cancel",
        "cancel",
        steering.cancel,
        answers.CancelAnswer,
        asked.Cancel,
        refusals=(404, 409, 410),
    ),
    _act("suspend", "cancel", steering.suspend, asked.Reasoned),
    _act("compensate", "cancel", steering.compensate, asked.Reasoned),
    _act("resume", "retry", steering.resume, asked.Reasoned),
    _act("retry", "retry", steering.retry, asked.Retry),
    _act("skip", "retry", steering.skip, asked.Skip),
    _act("retry-undo", "retry", steering.retry_undo, asked.RetryUndo),
    _act("resolve-undo", "retry", steering.resolve_undo, asked.ResolveUndo),
)
"""Every data route. Which verbs an action covers: docs/http.md."""
