"""The command that draws: `diagram`."""

from __future__ import annotations

import uuid

import click

from celery_saga.cli.session import Session, command
from celery_saga.definition import chart
from celery_saga.definition.graph import build
from celery_saga.definition.saga import Saga

__all__ = ["diagram"]


@command("diagram", short_help="Draw a graph or canvas, or the steps of a run, as Mermaid text.")
@click.argument("what", metavar="SAGA|RUN")
@click.option("--version", type=click.IntRange(min=1), help="Of the saga; without it, the highest that is known here.")
def diagram(session: Session, what: str, version: int | None) -> None:
    """Print a flow chart as Mermaid text. RUN is a run id or SAGA:KEY; a saga is one that is a graph or a canvas.

    A graph that this app does not know is drawn as it is stored, where its --version is given.
    """
    text = chart.of_steps(session.store.steps(session.run(what).id)) if _is_run(what) else _of(session, what, version)
    if session.out.as_json:
        session.out.document({"mermaid": text})
        return
    session.out.verbatim(text.splitlines())


def _is_run(what: str) -> bool:
    if ":" in what:
        return True
    try:
        uuid.UUID(what)
    except ValueError:
        return False
    return True


def _of(session: Session, name: str, version: int | None) -> str:
    stored = None if version is None else session.store.definition(name, version)
    if stored is not None and session.registry.get(name, stored.version) is None:
        found = build.of_text(Saga, stored.graph_text)
        if found is not None:
            return found.diagram()
    return session.named(name, version).diagram()
