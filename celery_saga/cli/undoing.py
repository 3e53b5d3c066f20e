"""What a person may do about the undo of a step: commands that the desk has, and that there are by long names too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import click

from celery_saga.cli.arguments import JSON, RUN
from celery_saga.cli.session import Session, command
from celery_saga.cli.steering import by_whom, show_after
from celery_saga.client.handle import RunHandle

__all__ = ["act", "close_undo", "of_step", "retrying"]


def act(session: Session, reference: str, verb: Callable[[RunHandle[Any]], object]) -> None:
    """Do something to the run that a reference names, and print the run as it is then."""
    record = session.run(reference)
    verb(session.handle(record.id))
    show_after(session, record.id)


def of_step(function: Any) -> Any:
    """The arguments that name a step of a run, and the options of who acts and why."""
    return click.argument("run", metavar=RUN)(click.argument("step")(by_whom(function)))


def retrying(name: str) -> click.Command:
    """The command of this name that executes an undo again."""

    @command(name, short_help="Execute an undo again, now.")
    @of_step
    @click.option(
        "--args",
        "given",
        type=JSON,
        help="All its arguments, the step's result included: a JSON list by position, or an object by name. Those that "
        "it had unless given.",
    )
    def retry(session: Session, run: str, step: str, given: Any, reason: str, by: str) -> None:
        """Execute the undo of STEP again, one that is used up or still tried. RUN is a run id or SAGA:KEY."""
        if not isinstance(given, list | dict | None):
            raise click.UsageError("--args takes a JSON list (by position) or object (by name).")
        args, kwargs = (None, given) if isinstance(given, dict) else (given, None)
        act(session, run, lambda handle: handle.retry_undo(step, args=args, kwargs=kwargs, reason=reason, by=by))

    return retry


def close_undo(
    session: Session, run: str, step: str, outcome: Literal["done", "skipped"], *, reason: str, by: str
) -> None:
    """Close the undo of a step by hand, and print the run as it is then."""
    act(session, run, lambda handle: handle.resolve_undo(step, outcome=outcome, reason=reason, by=by))
