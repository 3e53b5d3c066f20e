"""Routes that read runs."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, urlencode

from celery_saga.client import documents
from celery_saga.client.waiting import pauses_s
from celery_saga.core.masking import masked_values
from celery_saga.core.records import HistoryRecord, RunRecord
from celery_saga.definition import chart
from celery_saga.http.asked import DeskQuery, EventsQuery, HistoryQuery, RunQuery, RunsQuery, StepsQuery
from celery_saga.http.call import Answer, Call

__all__ = ["desk", "diagram", "events", "export", "history", "progress", "run", "runs", "steps", "waiting"]

_MOST_EVENTS = 1000


def runs(call: Call) -> Answer:
    """A page of runs, without those that the authorizer does not let the request read."""
    query: RunsQuery = call.query
    page = call.saga.runs(**query.model_dump())
    shown = [each for each in page if _may_see(call, each)]
    found = {"runs": [documents.run_document(each) for each in shown], "next": page.next}
    return Answer(found, headers=_link_to_next(call, page.next))


def desk(call: Call) -> Answer:
    """Runs that need a person, the one that has waited longest first; without those that may not be read."""
    query: DeskQuery = call.query
    page = call.saga.desk(**query.model_dump())
    shown = [each for each in page if _may_see(call, each.run)]
    found = {"desk": [documents.desk_document(each) for each in shown], "next": page.next}
    return Answer(found, headers=_link_to_next(call, page.next))


def _may_see(call: Call, run: RunRecord) -> bool:
    return call.access.ask("read", run, call.request) is not None


def _link_to_next(call: Call, after: str | None) -> tuple[tuple[str, str], ...]:
    if after is None:
        return ()
    asked = [(name, value) for name, value in parse_qsl(call.request.query) if name != "after"]
    link = f"{call.link(call.request.path)}?{urlencode([*asked, ('after', after)])}"
    return (("Link", f'<{link}>; rel="next"'),)


def run(call: Call) -> Answer:
    """One run with its steps, what it waits for, and its signals."""
    query: RunQuery = call.query
    record = call.kept
    return Answer(
        documents.shown_document(
            record,
            call.store.steps(record.id, all_generations=query.all),
            call.handle.waiting_on,
            call.store.signals(record.id),
            traceback=query.traceback,
        )
    )


def steps(call: Call) -> Answer:
    """The steps of a run."""
    query: StepsQuery = call.query
    found = call.store.steps(call.kept.id, all_generations=query.all)
    return Answer({"steps": [documents.step_document(each) for each in found]})


def history(call: Call) -> Answer:
    """What happened to a run."""
    query: HistoryQuery = call.query
    rows = call.store.history(call.kept.id, after=query.after)
    return Answer({"history": [documents.history_document(each) for each in rows]})


def events(call: Call) -> Answer:
    """What happened to a run after a row, at the latest once the wait is over."""
    query: EventsQuery = call.query
    answer = _events(call, query.after)
    if query.wait and not answer["events"] and not answer["ended"]:
        with call.patience.place():
            for pause_s in pauses_s(query.wait):
                time.sleep(pause_s)
                if call.store.history(call.run.id, after=query.after):
                    break
        answer = _events(call, query.after)
    return Answer(answer)


def _events(call: Call, after: int) -> documents.Document:
    # The status first: what is read of the history afterwards is then all that led to an end.
    has_ended = call.saga.engine.run_of(call.run.id).status.is_end
    found = call.store.history(call.run.id, after=after)
    rows: list[HistoryRecord] = found[:_MOST_EVENTS]
    return {
        "events": [documents.history_document(each) for each in rows],
        "next": rows[-1].seq if rows else after,
        "ended": has_ended and len(rows) == len(found),
    }


def waiting(call: Call) -> Answer:
    """What a run waits for."""
    return Answer({"waiting_on": [documents.waiting_document(each) for each in call.handle.waiting_on]})


def progress(call: Call) -> Answer:
    """How far the steps of a run are."""
    found = call.handle.progress
    return Answer({"progress": {key: documents.progress_document(each) for key, each in found.items()}})


def export(call: Call) -> Answer:
    """All that is stored of a run, but for the tokens in it."""
    return Answer(masked_values(call.handle.export()))


def diagram(call: Call) -> Answer:
    """The steps of a run as a flow chart."""
    return Answer({"mermaid": chart.of_steps(call.store.steps(call.kept.id))})
