"""Routes about lanes: which there are, and whose runs are paused."""

from __future__ import annotations

from celery_saga.client import documents
from celery_saga.errors import InvalidPayload
from celery_saga.http.asked import ForgetLane, Pause, Unpause, Which
from celery_saga.http.call import Answer, Call

__all__ = ["forget", "listing", "pause", "unpause"]


def listing(call: Call) -> Answer:
    """All lanes, and the sagas with a cap or a pause, by name."""
    return Answer({"lanes": [documents.lane_document(each) for each in call.saga.lanes()]})


def pause(call: Call) -> Answer:
    """Let no run of a saga, or in a lane, begin another step; what runs ends, undos go on."""
    body: Pause = call.body
    _check(body)
    info = call.saga.pause(saga=body.saga, lane=body.lane, reason=body.reason, by=call.by)
    return Answer(documents.lane_document(info))


def unpause(call: Call) -> Answer:
    """Let the runs of a paused saga or lane be active again."""
    body: Unpause = call.body
    _check(body)
    changed = call.saga.unpause(saga=body.saga, lane=body.lane, reason=body.reason, by=call.by)
    return Answer({"saga": body.saga, "lane": body.lane, "changed": changed})


def forget(call: Call) -> Answer:
    """Delete a lane that nobody uses and nothing names."""
    body: ForgetLane = call.body
    return Answer({"lane": body.lane, "changed": call.saga.forget_lane(body.lane, reason=body.reason, by=call.by)})


def _check(body: Which) -> None:
    if (body.saga is None) == (body.lane is None):
        raise InvalidPayload("give saga or lane, one of them; nothing was changed.", path="body")
