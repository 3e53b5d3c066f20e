"""The program `celery-saga`: the commands of `celery saga`, and the demo, without the rest of Celery's command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from celery_saga.cli.catalogue import COMMANDS, LazyGroup

__all__ = ["main"]

_PLACES: Final[Mapping[str, str]] = MappingProxyType({**COMMANDS, "demo": "celery_saga.cli.demo:demo"})
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class _Later:
    """The app's name, until a command wants the app."""

    def __init__(self, name: str | None, *, no_color: bool) -> None:
        self._name = name
        self.no_color = no_color

    @property
    def app(self) -> object:
        """The Celery app, loaded now; see `celery_saga.cli.loading.load`."""
        from celery_saga.cli.loading import load

        return load(self._name)


@click.group(cls=LazyGroup, places=_PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-A", "--app", envvar="APP", metavar="APP", help="The Celery app, as for `celery -A`.")
@click.option("--workdir", type=_FOLDER, help="Change to this folder first.")
@click.option("-C", "--no-color", envvar="NO_COLOR", is_flag=True, help="No colours.")
@click.version_option(package_name="celery-durable-saga", message="%(package)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, app: str | None, workdir: Path | None, no_color: bool) -> None:
    """Durable sagas on Celery: start, follow and steer runs.

    New here? `celery-saga demo` runs a shop's checkout through failures and crashes; it needs neither broker nor
    database.
    """
    if workdir is not None:
        os.chdir(workdir)
    ctx.obj = _Later(app, no_color=no_color)


def main() -> None:
    """Run the program; exits 0 when done, 1 for errors, 2 for wrong use."""
    cli(prog_name="celery-saga")
