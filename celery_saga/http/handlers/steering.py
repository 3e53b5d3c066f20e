"""Routes that signal and steer runs."""

from __future__ import annotations

from typing import Any

from celery_saga.client import documents
from celery_saga.client.answering import told_error
from celery_saga.client.binding import engine_of
from celery_saga.client.handle import RunHandle
from celery_saga.definition.keys import check_key, run_id_of
from celery_saga.errors import InvalidPayload
from celery_saga.http.asked import Cancel, KeyedSignal, Reasoned, ResolveUndo, Retry, RetryUndo, Signal, Skip
from celery_saga.http.call import Answer, Call
from celery_saga.http.strict import idempotency_key

__all__ = ["cancel", "compensate", "resolve_undo", "resume", "retry", "retry_undo", "signal", "signal_key", "skip"]
__all__ += ["suspend"]


def signal(call: Call) -> Answer:
    """Send a signal to a run."""
    return _send(call, call.handle, call.body)


def signal_key(call: Call) -> Answer:
    """Send a signal to the run of a saga and key, which need not exist yet."""
    body: KeyedSignal = call.body
    run_id = run_id_of(call.parts["saga"], body.key)
    loaded = call.store.load(run_id)
    call.access.need("signal", None if loaded is None else loaded.snapshot.run, call.request)
    saga = call.named()
    check_key(body.key, saga.name)
    engine, drive = engine_of(call.saga)
    return _send(call, RunHandle(engine, run_id, saga, False, key=body.key, drive=drive), body)


def _send(call: Call, handle: RunHandle[Any], body: Signal) -> Answer:
    sent_id = body.id if body.id is not None else idempotency_key(call.request)
    if body.error is None:
        delivery = handle.signal(body.name, body.value, id=sent_id)
    else:
        if body.value is not None:
            raise InvalidPayload("a signal has a value or an error, not both; nothing was sent.", path="body.error")
        saga = call.registry.latest(handle.saga)
        error = told_error(body.error, () if saga is None else saga.errors, body.name)
        delivery = handle.signal(body.name, id=sent_id, error=error)
    return Answer({"run": handle.id, "signal": body.name, "delivery": delivery})


def cancel(call: Call) -> Answer:
    """End the forward part of a run; its undos follow."""
    body: Cancel = call.body
    answer = call.handle.cancel(compensate=body.compensate, reason=body.reason, by=call.by)
    return Answer(documents.cancel_document(call.run, answer))


def suspend(call: Call) -> Answer:
    """Park a live run until a person resumes it."""
    body: Reasoned = call.body
    call.handle.suspend(reason=body.reason, by=call.by)
    return _after(call)


def resume(call: Call) -> Answer:
    """Take a parked run back into work."""
    body: Reasoned = call.body
    call.handle.resume(reason=body.reason, by=call.by)
    return _after(call)


def compensate(call: Call) -> Answer:
    """Undo what a parked or completed run has done."""
    body: Reasoned = call.body
    call.handle.compensate(reason=body.reason, by=call.by)
    return _after(call)


def retry(call: Call) -> Answer:
    """Start a failed or cancelled run over from where it failed."""
    body: Retry = call.body
    call.handle.retry(from_step=body.from_step, reason=body.reason, by=call.by)
    return _after(call)


def skip(call: Call) -> Answer:
    """Take a step for done without executing it."""
    body: Skip = call.body
    call.handle.skip(body.step, body.result, reason=body.reason, by=call.by)
    return _after(call)


def retry_undo(call: Call) -> Answer:
    """Execute a used-up undo again."""
    body: RetryUndo = call.body
    args, kwargs = (None, body.args) if isinstance(body.args, dict) else (body.args, None)
    call.handle.retry_undo(body.step, args=args, kwargs=kwargs, reason=body.reason, by=call.by)
    return _after(call)


def resolve_undo(call: Call) -> Answer:
    """Close an undo by hand; it is not executed."""
    body: ResolveUndo = call.body
    call.handle.resolve_undo(body.step, outcome=body.outcome, reason=body.reason, by=call.by)
    return _after(call)


def _after(call: Call) -> Answer:
    return Answer(documents.run_document(call.saga.engine.run_of(call.run.id)))
