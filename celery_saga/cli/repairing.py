"""Commands that repair a run by hand: `suspend`, `compensate`, `skip`, `retry-undo`, `resolve-undo`."""

from __future__ import annotations

from typing import Any, Literal

import click

from celery_saga.cli.arguments import JSON, RUN
from celery_saga.cli.session import Session, command
from celery_saga.cli.steering import by_whom
from celery_saga.cli.undoing import act, close_undo, of_step, retrying

__all__ = ["compensate", "resolve_undo", "retry_undo", "skip", "suspend"]

retry_undo = retrying("retry-undo")


@command("suspend", short_help="Park a run until a person resumes it.")
@click.argument("run", metavar=RUN)
@by_whom
def suspend(session: Session, run: str, reason: str, by: str) -> None:
    """Park a live run: what runs ends and is recorded, nothing else starts. RUN is a run id or SAGA:KEY."""
    act(session, run, lambda handle: handle.suspend(reason=reason, by=by))


@command("compensate", short_help="Undo what a parked or completed run has done.")
@click.argument("run", metavar=RUN)
@by_whom
def compensate(session: Session, run: str, reason: str, by: str) -> None:
    """Undo a suspended or completed run, or one cancelled without its undos. RUN is a run id or SAGA:KEY."""
    act(session, run, lambda handle: handle.compensate(reason=reason, by=by))


@command("skip", short_help="Take a step for done without executing it.")
@of_step
@click.option("--result", type=JSON, default=None, help="What the body gets from it, as JSON; null unless given.")
def skip(session: Session, run: str, step: str, result: Any, reason: str, by: str) -> None:
    """Take STEP for done; a run that was parked for it goes on. RUN is a run id or SAGA:KEY."""
    act(session, run, lambda handle: handle.skip(step, result, reason=reason, by=by))


@command("resolve-undo", short_help="Close an undo by hand.")
@of_step
@click.option(
    "--outcome",
    type=click.Choice(["done", "skipped"]),
    required=True,
    help="done: a person did it elsewhere; skipped: it shall not be done.",
)
def resolve_undo(
    session: Session, run: str, step: str, outcome: Literal["done", "skipped"], reason: str, by: str
) -> None:
    """Close the undo of STEP by hand; it is not executed. RUN is a run id or SAGA:KEY."""
    close_undo(session, run, step, outcome, reason=reason, by=by)
