"""The page of a run: facts, timeline, steps, signals, history, and what can be done now."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.safestring import mark_safe

from celery_saga.client.desk import SENTENCES
from celery_saga.core import attention
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.definition.chart import of_steps
from contrib_django.admin import reading
from contrib_django.admin.addresses import address, address_of_run
from contrib_django.admin.asking import run_or_404, title_of
from contrib_django.admin.flow import flow
from contrib_django.admin.gantt import legend, svg
from contrib_django.admin.showing import error_of, note, shown
from contrib_django.admin.timeline import Look, Timeline, timeline
from contrib_django.admin.verbs import VERBS, Verb, offered, permission_verb
from contrib_django.admin.words import ago, badge, due, instant, lasted, now_at
from contrib_django.models import Run, Step
from contrib_django.permissions import may, may_see_payloads

__all__ = ["page"]

_MOST_GENERATIONS = 2_147_483_647
_SHOWS = ("failed", "live", "undo")
_UNDO_VERBS = ("retry_undo", "undo_done", "undo_skipped")
_OPEN_UNDOS = frozenset({"failed", "lost", "held", "scheduled"})


def page(request: HttpRequest, site: Any, run_id: str) -> HttpResponse:
    """What a user may see of a run, and do to it."""
    if not may(request.user, "view"):
        raise PermissionDenied
    run = run_or_404(run_id)
    payloads, now = may_see_payloads(request.user), now_at()
    only = request.GET.get("show", "")
    if request.GET.get("step") and not only:  # a row of the timeline: its page is looked for
        return _to_step(request, run)
    strokes, has_more = reading.drawn_steps(run.id)
    picture = timeline(strokes, reading.marks(run.id), begin=run.created_at, end=run.ended_at, now=now)
    steps = reading.some_steps(
        run.id, reading.page_number(request.GET.get("steps")), only=only if only in _SHOWS else "", payloads=payloads
    )
    history = reading.history(run.id, reading.page_number(request.GET.get("history")))
    context = {
        **site.each_context(request),
        "title": title_of(run),
        "opts": Run._meta,
        "run": run,
        **_facts(request, run, now, payloads=payloads),
        **_drawn(picture, has_more=has_more),
        **_diagram(run),
        "steps": steps,
        "step_rows": [_step(request, run, each, now, payloads=payloads) for each in steps.rows],
        "show": only,
        "shows": [("", "all"), *((name, name) for name in _SHOWS)],
        "history": history,
        "history_rows": [_history(row) for row in history.rows],
        "signals": [_signal(each, payloads=payloads) for each in reading.signals(run.id, payloads=payloads)],
        "payloads": payloads,
        "pages": _addresses(request, steps, history),
    }
    return TemplateResponse(request, "admin/celery_saga/run/run.html", context)


def _facts(request: HttpRequest, run: RunRecord, now: Any, *, payloads: bool) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if payloads:
        begun = reading.beginnings(Run.objects.filter(pk=run.id), "input", "result")
        given = begun.values("input_begin", "result_begin").first() or {}
    needs = run.attention_at is not None or run.status is RunStatus.SUSPENDED
    why = attention.why(run) if needs else None
    live = [] if run.status.is_end else reading.live_steps(run.id, run.generation)
    verbs = offered(run, lambda verb: may(request.user, verb))
    return {
        "badge": badge(run.status.value),
        "lasted": lasted(run.started_at or run.created_at, run.ended_at, now),
        "error": error_of(run.error_text),
        "input": shown(given.get("input_begin", ""), allowed=payloads),
        "result": shown(given.get("result_begin"), allowed=payloads) if run.status is RunStatus.COMPLETED else None,
        "needs": None if why is None else {"why": why.replace("_", " "), "sentence": SENTENCES.get(why, "resume it")},
        "needs_since": ago(run.attention_at, now),
        "live": [
            {**each, "badge": badge(each["status"]), "due": due(each["kind"], each["status"], each["due_at"], now)}
            for each in live
        ],
        "children": [{**each, "badge": badge(each["status"])} for each in reading.children(run.id)],
        "verbs": [
            {"label": verb.label, "url": _verb_url(request, run.id, verb), "is_grave": verb.is_grave} for verb in verbs
        ],
        "pauses": [
            (word.capitalize(), f"{address(request, 'celery_saga_pause', word)}?{urlencode({'saga': run.saga})}")
            for word in ("pause", "unpause")
            if may(request.user, word)
        ],
    }


def _drawn(picture: Timeline, *, has_more: bool) -> dict[str, Any]:
    looks = frozenset(Look(bar.look) for row in picture.rows for bar in row.bars)
    drawn = svg(picture, lambda key, generation: "?" + urlencode({"step": key, "generation": generation}))
    return {
        "picture": mark_safe(drawn),  # noqa: S308 - what it draws of a run is escaped
        "legend": [(mark_safe(swatch), told) for swatch, told in legend(looks)],  # noqa: S308 - constants
        "is_shared": picture.is_shared,
        "drawn_steps": picture.steps,
        "has_more_steps": has_more,
        "begin": instant(picture.begin),
        "end": instant(picture.end),
    }


def _diagram(run: RunRecord) -> dict[str, Any]:
    """The chart of its steps as text and as a picture; nothing where there are too many of them."""
    steps = reading.charted_steps(run.id, run.generation)
    if not steps:
        return {}
    text = of_steps(steps)
    drawn = flow(text)
    return {"mermaid": text, "flow": None if drawn is None else mark_safe(drawn)}  # noqa: S308 - it is escaped


def _step(request: HttpRequest, run: RunRecord, step: Any, now: Any, *, payloads: bool) -> dict[str, Any]:
    is_undo = step.kind == "undo"
    verbs: list[Verb] = []
    if step.generation == run.generation and is_undo and step.status in _OPEN_UNDOS:
        verbs = [VERBS[name] for name in _UNDO_VERBS]
    elif step.generation == run.generation and step.kind == "step" and not run.status.is_end and step.status != "done":
        verbs = [VERBS["skip"]]
    key = step.undo_of if is_undo else step.key
    return {
        "step": step,
        "badge": badge(step.status),
        "error": error_of(step.error_text),
        "lasted": lasted(step.started_at, step.ended_at, now) if step.started_at else "",
        "args": shown(step.args_begin, allowed=payloads) if payloads and step.task else None,
        "result": shown(step.result_begin, allowed=payloads) if payloads else None,
        "child": address_of_run(request, step.task_id) if step.kind == "child" and step.task_id else None,
        "due": due(step.kind, step.status, step.due_at, now),
        "verbs": [
            {"label": verb.label, "url": f"{_verb_url(request, run.id, verb)}?{urlencode({'step': key})}"}
            for verb in verbs
            if may(request.user, permission_verb(verb.name))
        ],
    }


def _history(row: Any) -> dict[str, Any]:
    return {"row": row, "detail": note(row.detail), "reason": note(row.reason), "action": row.action.replace("_", " ")}


def _signal(row: Any, *, payloads: bool) -> dict[str, Any]:
    value = shown(row.value_begin if payloads else "", allowed=payloads)
    return {"row": row, "value": value, "error": error_of(row.error_text)}


def _verb_url(request: HttpRequest, run_id: str, verb: Verb) -> str:
    return address(request, "celery_saga_do", run_id, verb.name)


def _to_step(request: HttpRequest, run: RunRecord) -> HttpResponse:
    """To the page of the table that has the step."""
    key, generation = request.GET["step"], reading.whole(request.GET.get("generation"), _MOST_GENERATIONS)
    found = Step.objects.filter(run_id=run.id, key=key) if "\0" not in key else Step.objects.none()
    if generation is not None:
        found = found.filter(generation=generation)
    step = found.values("created_at", "place").first()
    number = 1
    if step is not None:
        before = Step.objects.filter(run_id=run.id, created_at__lt=step["created_at"]).count()
        beside = Step.objects.filter(run_id=run.id, created_at=step["created_at"], place__lt=step["place"]).count()
        number = (before + beside) // reading.PAGE + 1
    return HttpResponseRedirect(f"{address_of_run(request, run.id)}?{urlencode({'steps': number})}#step-{key}")


def _addresses(request: HttpRequest, steps: reading.Paged, history: reading.Paged) -> dict[str, str]:
    """Of the pages before and after, each of which keeps where the other table is."""
    numbers = {"steps": steps.number, "history": history.number}
    show = {"show": request.GET["show"]} if request.GET.get("show") else {}
    found = {}
    for name, table in (("steps", steps), ("history", history)):
        for word, number in (("previous", table.previous), ("next", table.next)):
            if number is not None:
                found[f"{name}_{word}"] = "?" + urlencode({**show, **numbers, name: number}) + f"#{name}"
    return found
