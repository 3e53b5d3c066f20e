"""What a command works with: the app, loaded after the words were parsed, its engine, and the way to print."""

from __future__ import annotations

import getpass
import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import click
from celery import Celery
from rich.console import Console

from celery_saga.cli import tables
from celery_saga.cli.diagnostics import Trouble, reporting, telling_what_was_not_sent
from celery_saga.cli.loading import NO_APP, told
from celery_saga.client import documents
from celery_saga.client.handle import RunHandle
from celery_saga.core.records import RunRecord
from celery_saga.definition.keys import run_id_of
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga
from celery_saga.engine.engine import Engine
from celery_saga.errors import RunNotFound, SagaError, UnknownSaga
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.services import per_process
from celery_saga.store import SqlStore

__all__ = ["Output", "Session", "command", "os_user", "run_id"]


class Output:
    """Prints documents or tables.

    Args:
        as_json: one JSON document, or a line for each of a list; nothing else goes to stdout.
        no_color: never any colours.
    """

    def __init__(self, *, as_json: bool, no_color: bool = False) -> None:
        self.as_json = as_json
        self._no_color = no_color

    @cached_property
    def console(self) -> Console | None:
        """Of the terminal; None where stdout is none."""
        return Console(no_color=self._no_color, highlight=False) if sys.stdout.isatty() else None

    def document(self, document: dict[str, Any]) -> None:
        """One document; over several lines where a person looks at it."""
        print(documents.text(document, indent=2 if sys.stdout.isatty() else None))

    def line(self, document: dict[str, Any]) -> None:
        """One document of a list, on a line of its own."""
        print(documents.text(document))

    def table(self, table: tables.Table) -> None:
        """A table for people."""
        tables.draw(table, self.console)

    def say(self, text: str, style: str = "") -> None:
        """A line for people."""
        if self.console is None:
            print(text)
        else:
            self.console.print(text, style=style or None, markup=False)

    def verbatim(self, lines: Iterable[str]) -> None:
        """Lines of a program's text, as they are."""
        for line in lines:
            if self.console is None:
                print(line)
            else:
                self.console.print(line, markup=False, soft_wrap=True)

    def indented(self, text: str, style: str = "", *, first: int = 9, rest: int = 9) -> None:
        """A text for people; on a terminal its lines are wrapped and indented.

        Args:
            first, rest: by how many blanks, the first line and those that follow.
        """
        if self.console is None:
            print(" " * first + text)
            return
        lines = textwrap.wrap(
            text,
            max(self.console.width - 1, rest + 20),
            initial_indent=" " * first,
            subsequent_indent=" " * rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines:
            self.console.print(line, style=style or None, markup=False, soft_wrap=True)

    def facts(self, facts: list[tuple[str, tables.Cell | str]]) -> None:
        """Names and values, one a line; those without a value are left out."""
        shown = [(name, cell if isinstance(cell, tables.Cell) else tables.Cell(cell)) for name, cell in facts]
        shown = [(name, cell) for name, cell in shown if cell.text]
        width = max((len(name) for name, _ in shown), default=0)
        for name, cell in shown:
            if self.console is None:
                print(f"{name.ljust(width)}  {cell.text}")
            else:
                self.console.print(f"[dim]{name.ljust(width)}[/dim]  ", end="")
                self.console.print(cell.text, style=cell.style or None, markup=False, soft_wrap=True)


class Session:
    """One command's work on one app.

    Args:
        app: with celery_saga added.
        out: where it prints to.
    Raises:
        Trouble: the app has no celery_saga, or its configuration cannot be loaded.
    """

    def __init__(self, app: Celery, out: Output) -> None:
        self.app = app
        self.out = out
        try:
            app.loader.import_default_modules()
            app.finalize()
            # Reading one setting loads the configuration, whose errors would else look like ours.
            app.conf.get("saga_database_url")
        except Exception as error:
            raise Trouble("CONFIG_ERROR", f"the app {app.main!r} cannot be configured: {told(error)}") from error
        self.saga = _extension(app)

    def close(self) -> None:
        """Close what the command has opened: connections to the database, and the publisher's thread."""
        per_process(self.app).close()

    @property
    def engine(self) -> Engine:
        """Starts and steers runs."""
        return self.saga.engine

    @property
    def store(self) -> SqlStore:
        """The tables, as a transaction of a framework's sees them where one is open."""
        return self.saga.store

    @property
    def own_store(self) -> SqlStore:
        """The tables, in transactions of its own."""
        return self.saga.services.store

    @property
    def registry(self) -> Registry:
        """The sagas that this app knows."""
        return self.saga.registry

    def named(self, name: str, version: int | None = None) -> Saga[Any, Any]:
        """The saga of this name, in its highest version unless one is given.

        Raises:
            UnknownSaga: the app does not know it.
        """
        found = self.registry.latest(name) if version is None else self.registry.get(name, version)
        if found is None:
            what = repr(name) if version is None else f"{name!r} version {version}"
            raise self._unknown(what)
        return found

    def check_saga(self, name: str | None) -> None:
        """Refuse a name that no saga of the app and no run has; None is any.

        Raises:
            UnknownSaga: telling those that there are.
        """
        if name is not None and self.registry.latest(name) is None and not len(self.saga.runs(saga=name, limit=1)):
            raise self._unknown(repr(name))

    def _unknown(self, what: str) -> UnknownSaga:
        known = ", ".join(sorted({f"{saga.name} (version {saga.version})" for saga in self.registry}))
        return UnknownSaga(f"the app knows no saga {what}; it knows {known or 'none'}. Nothing was written")

    def run(self, reference: str) -> RunRecord:
        """The run that a run id or `SAGA:KEY` names.

        Raises:
            RunNotFound: there is none.
            UnknownSaga: there is none, nor a saga of that name.
        """
        try:
            return self.engine.run_of(run_id(reference))
        except RunNotFound as error:
            raise self._not_found(reference, error) from error

    def handle(self, reference: str) -> RunHandle[Any]:
        """A handle of the run that a run id or `SAGA:KEY` names.

        Raises:
            RunNotFound: there is none; with a key of a saga that the app knows, it need not exist.
            UnknownSaga: there is none, nor a saga of that name.
        """
        name, colon, key = reference.partition(":")
        saga = self.registry.latest(name) if colon else None
        if saga is not None:
            return saga.find(key=key)
        try:
            return self.saga.get(run_id(reference))
        except RunNotFound as error:
            raise self._not_found(reference, error) from error

    def _not_found(self, reference: str, error: RunNotFound) -> SagaError:
        """What to tell of a run that is not there, in the words with which it was asked for."""
        name, colon, key = reference.partition(":")
        if not colon:
            return error
        if self.registry.latest(name) is None:
            return self._unknown(repr(name))
        return RunNotFound(f"saga {name!r} has no run with the key {key!r}", run_id=error.run_id)


def run_id(reference: str) -> str:
    """The run id that a reference stands for: a run id as it is, or the one that follows from `SAGA:KEY`."""
    saga, colon, key = reference.partition(":")
    return run_id_of(saga, key) if colon else reference


def os_user() -> str:
    """Who runs the command: the operating system's name of the user, else the number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid())


def command(name: str, *, rows: bool = False, **settings: Any) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command that takes a session first, and `--json`.

    The app is loaded when all words were parsed: wrong use is told even where the app is broken.

    Args:
        rows: it prints a table or a list, and with `--json` a document for each row.
    """
    as_json = "Print JSON, one document a line for each row." if rows else "Print one JSON document instead of text."

    def make(function: Callable[..., None]) -> click.Command:
        @click.pass_context
        def run(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
            given = ctx.obj
            out = Output(as_json=as_json, no_color=bool(given.no_color))
            session = Session(given.app, out)
            try:
                with telling_what_was_not_sent():
                    function(session, **options)
            finally:
                session.close()

        callback = reporting(run)
        callback.__doc__ = function.__doc__
        callback.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        option = click.option("--json", "as_json", is_flag=True, help=as_json)
        made: click.Command = click.command(name, **settings)(option(callback))  # type: ignore[no-untyped-call]
        return made

    return make


def _extension(app: Celery) -> CelerySaga:
    extension = getattr(app, "saga", None)
    if isinstance(extension, CelerySaga):
        return extension
    if app.main == "default":
        raise Trouble("NO_APP", NO_APP, exit_code=2)
    raise Trouble(
        "NOT_INSTALLED",
        f"the app {app.main!r} has no celery_saga: write CelerySaga(app) in the module where the app is made",
    )
