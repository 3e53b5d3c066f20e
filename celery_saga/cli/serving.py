"""The command that serves the HTTP API for a look: `api`."""

from __future__ import annotations

import sys

import click

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command, os_user
from celery_saga.core.records import RunRecord
from celery_saga.http import ACTIONS, Authorizer, Request, wsgi
from celery_saga.http.server import serving

__all__ = ["api"]


@command("api", short_help="Serve the HTTP API for a look.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option(
    "--allow",
    type=click.Choice(ACTIONS),
    multiple=True,
    help="What everybody who reaches it may do; nothing unless given. Repeatable.",
)
def api(session: Session, host: str, port: int, allow: tuple[str, ...]) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C.

    For a look on your own machine: it knows no users. For real, mount celery_saga.http in a server with an authorizer;
    docs/http.md tells how.
    """
    try:
        with serving(wsgi(session.saga, _authorizer(allow)), host, port) as (url, told_to_end):
            if session.out.as_json:
                session.out.document({"url": url, "allowed": list(allow)})
            else:
                allowed = ", ".join(allow) if allow else "nothing, since there is no --allow"
                session.out.say(f"{url}/openapi.json  (allowed: {allowed})")
            sys.stdout.flush()
            told_to_end.wait()
    except OSError as error:
        raise Trouble("CANNOT_LISTEN", f"{host}:{port}: {error.strerror or error}") from error


def _authorizer(allow: tuple[str, ...]) -> Authorizer:
    name = os_user()

    def authorizer(action: str, run: RunRecord | str | None, request: Request) -> object:
        return name if action in allow else False

    return authorizer
