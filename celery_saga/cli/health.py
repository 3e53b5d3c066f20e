"""Commands about the deployment: `check`, `doctor`."""

from __future__ import annotations

import click

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.examination import examine
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import Cell, counted, status
from celery_saga.runtime.guard import Level

__all__ = ["check", "doctor"]


@command("check", rows=True, short_help="Find dangerous settings of broker, database, pool and app.")
@click.option(
    "--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Workers that share the database."
)
def check(session: Session, nodes: int) -> None:
    """Find dangerous combinations of broker, database, pool and settings."""
    findings = session.saga.check(nodes=nodes)
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if session.out.as_json:
        for finding in findings:
            session.out.line(
                {
                    "code": finding.code,
                    "level": finding.level.value,
                    "sentence": finding.sentence,
                    "remedy": finding.remedy,
                }
            )
    else:
        for finding in findings:
            session.out.say(f"{finding.level.value:<8} {finding.code}", status(finding.level.value).style)
            session.out.indented(finding.sentence)
            session.out.indented(f"What to do: {finding.remedy}")
        told = f"{counted(len(findings), 'finding')}, {counted(len(errors), 'error')} among them"
        session.out.say(told if findings else "nothing found")
    if errors:
        codes = ", ".join(sorted({finding.code for finding in errors}))
        raise Trouble("CHECK_FOUND_ERRORS", f"{counted(len(errors), 'error')}: {codes}")


@command("doctor", short_help="Find what is wrong with runs and sweepers now.")
def doctor(session: Session) -> None:
    """Find what is wrong now: tables, broker, sweepers, runs that nothing would wake."""
    report = examine(session)
    if session.out.as_json:
        session.out.document(report.document())
    else:
        for title, told, is_well in report.lines:
            mark = Cell("ok", "green") if is_well else Cell("TROUBLE", "bold red")
            session.out.indented(f"{mark.text:<8} {title:<16} {told}", mark.style, first=0, rest=26)
    if report.troubles:
        raise Trouble("UNHEALTHY", "; ".join(report.troubles))
