"""The command that tells which versions are alive, and who knows them: `versions`."""

from __future__ import annotations

from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import Cell, Table, counted
from celery_saga.engine.versions import VersionRecord

__all__ = ["versions"]


@command("versions", rows=True, short_help="List sagas and versions with their live runs and workers.")
def versions(session: Session) -> None:
    """List sagas and versions: how many live runs each has, and which live workers know it."""
    found = session.saga.versions()
    if session.out.as_json:
        for each in found:
            session.out.line(
                {
                    "saga": each.saga,
                    "version": each.version,
                    "live_runs": each.live_runs,
                    "known_here": each.known_here,
                    "workers": list(each.workers),
                    "orphaned": each.is_orphaned,
                }
            )
        return
    table = Table(("saga", "version", "live runs", "known here", "workers"))
    for each in found:
        here = Cell("yes", "green") if each.known_here else Cell("no", "yellow" if each.live_runs else "")
        table.rows.append((each.saga, str(each.version), str(each.live_runs), here, _workers(each)))
    session.out.table(table)
    for each in found:
        if each.is_orphaned:
            session.out.say(
                f"no live worker knows {each.saga} version {each.version}, which {counted(each.live_runs, 'live run')} "
                f"{'needs' if each.live_runs == 1 else 'need'}",
                "bold red",
            )


def _workers(version: VersionRecord) -> Cell:
    if version.is_orphaned:
        return Cell("none", "bold red")
    return Cell(", ".join(version.workers) or "none")
