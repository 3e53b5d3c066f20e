"""What is asked of a run by a mere insert: a row in its inbox under a reserved name, done under the run's lock."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import codec, operator
from celery_saga.core.records import SignalRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot

CANCEL = "!cancel"
"""Name of a request to cancel; no signal of a user's begins with `!`."""


def cancel_request(
    run_id: str, request_id: str, now: datetime, *, compensate: bool, reason: str, by: str | None
) -> SignalRecord:
    """The row that asks to cancel a run; its wake-up is for the caller to set.

    Args:
        request_id: fresh.
    """
    value_text = codec.encode({"compensate": compensate, "reason": reason, "by": by})
    return SignalRecord(0, run_id, CANCEL, request_id, now, value_text)


def carry_out(s: Snapshot, now: datetime) -> Snapshot:
    """Do what the requests in the inbox ask for, oldest first; each is done once, also where it changes nothing."""
    for request in tuple(x for x in s.inbox if x.is_request and x.taken_by is None):
        if request.name == CANCEL:
            given = codec.decode(request.value_text)
            s = operator.cancel(s, now, compensate=given["compensate"], reason=given["reason"], by=given["by"])
        done = replace(request, taken_by=request.name, taken_generation=s.run.generation, wake_at=None, expires_at=None)
        s = s.with_inbox(tuple(done if x.id == request.id else x for x in s.inbox))
    return s
