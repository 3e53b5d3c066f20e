"""What goes wrong, as one line `CODE: text` on stderr and an exit code."""

from __future__ import annotations

import functools
import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, ParamSpec, TypeVar

import click

from celery_saga.errors import SagaError

__all__ = ["Trouble", "reporting", "telling_what_was_not_sent"]

P = ParamSpec("P")
R = TypeVar("R")


class Trouble(click.ClickException):
    """Ends a command.

    Args:
        code: stable, upper case with underscores.
        text: what was wrong and what to do; line breaks become blanks.
        exit_code: 1 for errors, 2 for wrong use.
    """

    def __init__(self, code: str, text: str, *, exit_code: int = 1) -> None:
        super().__init__(text)
        self.code = code
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the one line on stderr."""
        click.echo(f"{self.code}: {' '.join(self.message.split())}", file=file, err=file is None)


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of celery_saga leave a command as its diagnostics."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # An arrow that the terminal's encoding lacks is no reason to fail.
            sys.stdout.reconfigure(errors="replace")
        try:
            return command(*args, **kwargs)
        except SagaError as error:
            raise Trouble(error.code, str(error)) from error

    return reported


class _NotSent(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Where the app has set up logging, that tells.
        if not logging.getLogger().handlers:
            click.echo(f"NOT_SENT: {' '.join(record.getMessage().split())}", err=True)


@contextmanager
def telling_what_was_not_sent() -> Iterator[None]:
    """Let the publisher's warnings be diagnostics: a run that was started while the broker is away waits for it."""
    publisher, handler = logging.getLogger("celery_saga.publisher"), _NotSent(logging.WARNING)
    publisher.addHandler(handler)
    try:
        yield
    finally:
        publisher.removeHandler(handler)
