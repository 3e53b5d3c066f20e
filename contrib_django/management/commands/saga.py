"""`manage.py saga ...`: every command of `celery saga`, on the project's Celery app."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any, Final

import click
from celery import Celery
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.group import saga
from contrib_django.project import celery_app

__all__ = ["Command"]

_WITH_VALUE: Final = ("--settings", "--pythonpath")
"""Options of Django's own, which it has read before a command is called."""


class _Given:
    """What the commands find their app by."""

    def __init__(self, *, no_color: bool) -> None:
        self.no_color = no_color

    @property
    def app(self) -> Celery:
        """The project's."""
        app = celery_app()
        if app is None:
            raise Trouble(
                "NO_APP",
                "the project has imported no Celery app: import it in the project's __init__.py, "
                "`from .celery import app as celery_app`",
                exit_code=2,
            )
        return app


class Command(BaseCommand):
    """Durable sagas: start, follow and steer runs."""

    help = "Durable sagas: start, follow and steer runs."
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """As `celery saga` does: the same words, the same exit codes."""
        words, no_color = _without_djangos(argv[2:])
        try:
            saga.main(words, prog_name=f"{Path(argv[0]).name} {argv[1]}", obj=_Given(no_color=no_color))
        finally:
            connections.close_all()

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """The help of the commands, not of Django's options."""
        self.run_from_argv([prog_name, subcommand, "--help"])

    def add_arguments(self, parser: CommandParser) -> None:
        """For `call_command("saga", "runs", "--json")`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, words: Iterable[str], no_color: bool = False, **options: Any) -> None:
        """For `call_command`: CommandError, with the exit code as `returncode`, where the program would exit with one.

        Raises:
            CommandError: the command failed, or was used wrongly.
        """
        given = _Given(no_color=no_color)
        try:
            with _told_to(options.get("stdout"), options.get("stderr")):
                code = saga.main(list(words), prog_name="saga", obj=given, standalone_mode=False)
        except click.ClickException as error:
            name = f"{error.code}: " if isinstance(error, Trouble) else ""
            raise CommandError(f"{name}{error.format_message()}", returncode=error.exit_code) from error
        if isinstance(code, int) and code != 0:
            raise CommandError(f"exit code {code}", returncode=code)


@contextmanager
def _told_to(stdout: IO[str] | None, stderr: IO[str] | None) -> Iterator[None]:
    """What the command says goes where the caller of `call_command` wants it."""
    with ExitStack() as until:
        if stdout is not None:
            until.enter_context(redirect_stdout(stdout))
        if stderr is not None:
            until.enter_context(redirect_stderr(stderr))
        yield


def _without_djangos(words: list[str]) -> tuple[list[str], bool]:
    """The words that are ours, and whether there shall be no colours."""
    ours: list[str] = []
    rest = iter(words)
    no_color = False
    for word in rest:
        if word == "--":
            ours += [word, *rest]
        elif word in _WITH_VALUE:
            next(rest, None)
        elif word == "--no-color":
            no_color = True
        elif not word.startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            ours.append(word)
    return ours, no_color
