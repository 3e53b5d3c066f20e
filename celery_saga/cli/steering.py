"""Commands that steer one run: `signal`, `cancel`, `retry`."""

from __future__ import annotations

from typing import Any

import click

from celery_saga.cli.arguments import JSON, RUN
from celery_saga.cli.reading import show_run
from celery_saga.cli.session import Session, command, os_user
from celery_saga.client import documents
from celery_saga.client.answering import told_error
from celery_saga.client.handle import RunHandle
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus

__all__ = ["by_whom", "cancel", "retry", "show_after", "signal"]


def by_whom(function: Any) -> Any:
    """The options that tell the history who acts and why."""
    function = click.option("--by", default=os_user, show_default="you", help="Who does it, for the history.")(function)
    return click.option("--reason", default="", help="Why, for the history.")(function)


@command("signal", short_help="Send a signal to a run.")
@click.argument("run", metavar=RUN)
@click.argument("name")
@click.option("--value", type=JSON, default=None, help="The signal's value, as JSON; null unless given.")
@click.option("--id", "signal_id", help="Of this message: a second one with the same id is refused.")
@click.option("--error", help="Answer with an error instead: text, or 'Class: text' of a declared error.")
def signal(session: Session, run: str, name: str, value: Any, signal_id: str | None, error: str | None) -> None:
    """Send the signal NAME to a run. RUN is a run id or SAGA:KEY."""
    if error is not None and value is not None:
        raise click.UsageError("--value and --error exclude each other.")
    handle = session.handle(run)
    if error is None:
        answer = handle.signal(name, value, id=signal_id)
    else:
        answer = handle.signal(name, id=signal_id, error=_error(session, handle, name, error))
    if session.out.as_json:
        session.out.document({"run": handle.id, "signal": name, "delivery": answer})
        return
    told = {"delivered": "a wait took it", "kept": "no wait takes it yet, so it was kept"}
    session.out.say(f"{name}: {answer} ({told.get(answer, '')})")


def _error(session: Session, handle: RunHandle[Any], name: str, text: str) -> Exception:
    saga = session.registry.latest(handle.saga)
    return told_error(text, () if saga is None else saga.errors, name)


@command("cancel", short_help="Cancel a run and undo what it did.")
@click.argument("run", metavar=RUN)
@click.option("--no-compensate", is_flag=True, help="Do not run its undos.")
@by_whom
def cancel(session: Session, run: str, no_compensate: bool, reason: str, by: str) -> None:
    """Cancel a run; its undos follow. RUN is a run id or SAGA:KEY."""
    record = session.run(run)
    answer = session.handle(record.id).cancel(compensate=not no_compensate, reason=reason, by=by)
    if session.out.as_json:
        session.out.document(documents.cancel_document(record, answer))
        return
    unchanged = _why_unchanged(record)
    follows = "; its undos follow" if answer["status"] == RunStatus.COMPENSATING else ""
    is_over = answer["status"] == RunStatus.CANCELLED
    told = unchanged or ("cancelled" if is_over else f"cancelled, it is {answer['status']}{follows}")
    session.out.say(f"{record.id}: {told}")


def _why_unchanged(record: RunRecord) -> str | None:
    """Why a cancel changes nothing of a run; None: it does."""
    if record.status.is_end:
        more = "; `saga compensate` undoes what it did" if record.status is RunStatus.COMPLETED else ""
        return f"nothing was changed: the run had ended before, it is {record.status.value}{more}"
    if record.outcome is not None:
        what = f"its forward part had ended before as {record.outcome.value}, and its undos follow"
        return f"nothing was changed: {what}; it is {record.status.value}"
    return None


@command("retry", short_help="Start a failed or cancelled run over from where it failed.")
@click.argument("run", metavar=RUN)
@click.option("--from-step", metavar="STEP", help="Start over from this step, or an earlier one that was undone.")
@by_whom
def retry(session: Session, run: str, from_step: str | None, reason: str, by: str) -> None:
    """Start a failed or cancelled run over; done steps before the cut are kept. RUN is a run id or SAGA:KEY."""
    record = session.run(run)
    session.handle(record.id).retry(from_step=from_step, reason=reason, by=by)
    show_after(session, record.id)


def show_after(session: Session, run_id: str) -> None:
    """Print a run as it is after something was done to it."""
    after = session.engine.run_of(run_id)
    if session.out.as_json:
        session.out.document(documents.run_document(after))
        return
    show_run(session, after, session.store.now())
