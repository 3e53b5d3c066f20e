"""The command for CI, before a deploy: `preview`."""

from __future__ import annotations

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import counted
from celery_saga.engine.previewing import BrokenRun

__all__ = ["preview"]


@command("preview", short_help="Tell which live runs would break under this code.")
def preview(session: Session) -> None:
    """Replay the live runs against the code at hand, and list those that would break. Nothing is written.

    Ends with 1 when there are any: run it in CI, with the new code on the database of the old, before a deploy.
    """
    found = session.saga.preview()
    if session.out.as_json:
        session.out.document({"replayed": found.replayed, "broken": [_document(each) for each in found]})
    for each in () if session.out.as_json else found:
        key = "" if each.key is None else f" ({each.key})"
        session.out.say(f"{each.run_id}{key}  {each.saga} version {each.version}, {each.status.value}: {each.reason}")
        session.out.indented(each.message, first=4, rest=4)
    if not found:
        if not session.out.as_json:
            session.out.say(f"{counted(found.replayed, 'live run')} replayed, none would break")
        return
    reasons = ", ".join(sorted({each.reason for each in found}))
    raise Trouble(
        "PREVIEW_FOUND_BREAKS", f"{len(found)} of {counted(found.replayed, 'live run')} would break: {reasons}"
    )


def _document(broken: BrokenRun) -> dict[str, object]:
    return {
        "run": broken.run_id,
        "saga": broken.saga,
        "version": broken.version,
        "key": broken.key,
        "status": broken.status.value,
        "reason": broken.reason,
        "message": broken.message,
    }
