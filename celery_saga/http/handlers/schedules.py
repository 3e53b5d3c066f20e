"""Routes about schedules: what the clock starts."""

from __future__ import annotations

from celery_saga.client import documents
from celery_saga.client.schedules import ScheduleHandle
from celery_saga.core.schedules import ScheduleRecord
from celery_saga.definition.scheduling import wanted
from celery_saga.errors import DefinitionError, InvalidPayload
from celery_saga.http.asked import FiresQuery, Reasoned, Schedule, SchedulesQuery
from celery_saga.http.call import Answer, Call

__all__ = ["fires", "listing", "pause", "put", "remove", "show", "unpause"]


def listing(call: Call) -> Answer:
    """Schedules, by saga and name."""
    query: SchedulesQuery = call.query
    found = [each for each in call.saga.schedules() if query.saga in {None, each.saga}]
    return Answer({"schedules": [documents.schedule_document(each) for each in found]})


def show(call: Call) -> Answer:
    """One schedule."""
    return _told(_handle(call).record)


def fires(call: Call) -> Answer:
    """What became of the nominal times of a schedule, newest first."""
    query: FiresQuery = call.query
    found = _handle(call).fires(limit=query.limit)
    return Answer({"fires": [documents.fire_document(each) for each in found]})


def put(call: Call) -> Answer:
    """Add a schedule, or change the one that is there."""
    body: Schedule = call.body
    saga, book = call.named(body.version), call.saga.engine.schedules
    args, kwargs = ((), body.args) if isinstance(body.args, dict) else (body.args or (), {})
    said = {"cron": body.cron, "every": body.every, "at": body.at, "tz": body.tz, "args": args, "kwargs": kwargs}
    said |= {"overlap": body.overlap, "catch_up": body.catch_up}
    limit_bytes = call.saga.engine.limits.max_payload_bytes
    try:
        asked = wanted(saga, call.parts["schedule"], said, book, limit_bytes=limit_bytes, source="http")
        record, _ = book.put(asked)
    except DefinitionError as error:
        raise InvalidPayload(str(error), path="body") from error
    return _told(record)


def remove(call: Call) -> Answer:
    """Remove a schedule with the log of its fires; its runs are left alone."""
    handle = _handle(call)
    handle.remove()
    return Answer({"saga": handle.saga, "id": handle.id, "removed": True})


def pause(call: Call) -> Answer:
    """Skip the times of a schedule from now on."""
    body: Reasoned = call.body
    return _told(_handle(call).pause(reason=body.reason, by=call.by))


def unpause(call: Call) -> Answer:
    """Let a paused schedule fire again, from its next time in the future on."""
    return _told(_handle(call).unpause())


def _handle(call: Call) -> ScheduleHandle:
    return call.saga.find_schedule(call.parts["saga"], call.parts["schedule"])


def _told(record: ScheduleRecord) -> Answer:
    return Answer(documents.schedule_document(record))
