"""The page that asks before something is done to a run, and does it then."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from celery_saga.core.masking import masked
from celery_saga.core.records import RunRecord
from celery_saga.errors import IllegalTransition, InvalidPayload, SagaError
from contrib_django.admin.addresses import address, address_of_run
from contrib_django.admin.bound import sagas
from contrib_django.admin.deleting import purge_run
from contrib_django.admin.reading import beginnings, record
from contrib_django.admin.schema_form import JsonField, add_refusal
from contrib_django.admin.showing import shown
from contrib_django.admin.telling import CHANGE, DELETION, log, refused, who
from contrib_django.admin.verbs import VERBS, Verb, permission_verb, tried
from contrib_django.admin.words import badge
from contrib_django.models import Step
from contrib_django.permissions import may, may_see_payloads

__all__ = ["ask", "run_or_404", "title_of"]

_SHOWN_UNDOS = 12


def run_or_404(run_id: str) -> RunRecord:
    """The run without its payloads."""
    found = record(run_id)
    if found is None:
        raise Http404(f"there is no run {run_id!r}")
    return found


def title_of(run: RunRecord) -> str:
    """What a run is called."""
    return f"{run.saga} {run.key or run.id}"


class VerbForm(forms.Form):
    """What a verb asks.

    Args:
        verb: whose form it is.
        run: to which it is done.
    """

    def __init__(self, verb: Verb, run: RunRecord, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in verb.fields:
            self.fields[name] = _field(name, run)
        self.fields["reason"] = forms.CharField(
            required=verb.needs_reason,
            max_length=2000,
            widget=AdminTextareaWidget(attrs={"rows": 2}),
            help_text="Why; it stands in the history of the run beside your name.",
        )

    def told(self) -> dict[str, Any]:
        """The values beside the reason, once the form is valid; JSON that was left empty is None."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}


def _field(name: str, run: RunRecord) -> forms.Field:
    if name == "from_step":
        return forms.CharField(
            label="From step",
            required=False,
            max_length=255,
            widget=AdminTextInputWidget(),
            help_text="Key of a step. Empty: where it failed" + (f", at {run.error_step}." if run.error_step else "."),
        )
    if name == "compensate":
        return forms.BooleanField(
            label="Undo what it has done", required=False, initial=True, help_text="Unchecked: the undos are skipped."
        )
    if name == "keep_keys":
        return forms.BooleanField(label="Keep the key", required=False, initial=True)
    hints = {
        "result": "JSON: what the body gets from the step. Empty: null.",
        "args": "JSON list of all positional arguments, the step's result included. Empty in both: those it had.",
        "kwargs": "JSON object of the keyword arguments.",
    }
    return _Json(name, help_text=hints[name])


class _Json(JsonField):
    """JSON for an argument of a verb; lists and objects where those are meant."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(required=False, **options)
        self._kind = {"args": list, "kwargs": dict}.get(name)

    def to_python(self, value: Any) -> Any:
        """The value, of the right kind."""
        found = super().to_python(value)
        if found is not None and self._kind is not None and not isinstance(found, self._kind):
            raise forms.ValidationError(f"Write a JSON {'list' if self._kind is list else 'object'}.", code="json")
        return found


def ask(request: HttpRequest, site: Any, run_id: str, name: str) -> HttpResponse:
    """GET: what it would do, and the form. POST: it is done, or refused with a message."""
    verb = VERBS.get(name)
    if verb is None or verb.name == "signal":
        raise Http404(f"there is no action {name!r}")
    if not may(request.user, "view") or not may(request.user, permission_verb(name)):
        raise PermissionDenied
    run = run_or_404(run_id)
    step = request.GET.get("step") if verb.of_step else None
    if verb.of_step and (not step or "\0" in step):
        raise Http404("no step was named")
    form = VerbForm(verb, run, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            _check_generation(request, run)
            return _done(request, verb, run, form, step)
        except InvalidPayload as error:
            add_refusal(form, error)
        except SagaError as error:
            refused(request, error)
            return HttpResponseRedirect(_back(request, run_id))
    context = {
        **site.each_context(request),
        "title": f"{verb.label}: {title_of(run)}",
        "run": run,
        "badge": badge(run.status.value),
        "generation": str(run.generation),
        "verb": verb,
        "step": step,
        "form": form,
        "back": _back(request, run_id),
        **_outlook(verb, run, step),
        **_arguments(request, verb, run, step),
    }
    return TemplateResponse(request, "admin/celery_saga/run/ask.html", context)


def _check_generation(request: HttpRequest, run: RunRecord) -> None:
    """Refuse what was confirmed on a page that showed another generation: by a second click, or after another user."""
    shown_one = request.POST.get("generation", "")
    if shown_one not in ("", str(run.generation)):
        raise IllegalTransition(
            f"run {run.id!r}: it has started over since the page was opened, and is in generation {run.generation} "
            "now; nothing was changed. Look at it again."
        )


def _done(request: HttpRequest, verb: Verb, run: RunRecord, form: VerbForm, step: str | None) -> HttpResponse:
    reason, by, told = form.cleaned_data["reason"], who(request), form.told()
    about = f"{verb.label}{f' of {step}' if step else ''}"
    if verb.name == "purge":
        gone = purge_run(sagas().services.store, run, keep_keys=told["keep_keys"])
        log(request, run.id, title_of(run), f"{about}: {gone} runs. {reason}", DELETION)
        messages.success(request, f"{gone} run{'s were' if gone != 1 else ' was'} purged.")
        return HttpResponseRedirect(address(request, "celery_saga_run_changelist"))
    if verb.name == "retry_undo" and told["args"] is None and told["kwargs"] is not None:
        told["args"] = []
    said = verb.do(sagas().get(run.id), told, reason=reason, by=by, step=step)
    log(request, run.id, title_of(run), f"{about}: {said} {reason}".strip(), CHANGE)
    messages.success(request, said)
    return HttpResponseRedirect(_back(request, run.id))


def _outlook(verb: Verb, run: RunRecord, step: str | None) -> dict[str, Any]:
    """What would be: the status afterwards, or the refusal; the undos that would follow; the runs that would go."""
    outlook: dict[str, Any] = {"refusal": None, "after": None, "undos": [], "more_undos": 0}
    try:
        if verb.name == "purge":
            outlook["gone"] = purge_run(sagas().services.store, run, keep_keys=True, dry_run=True)
            return outlook
        after, is_idle = tried(sagas().engine, verb, run, step)
        if is_idle:
            return {**outlook, "is_idle": True, "refusal": f"It would change nothing now: the run is {after}."}
        outlook["after"] = badge(after)
    except SagaError as error:
        outlook["refusal"] = f"{error.code}: {masked(str(error))}"
        return outlook
    if verb.name in ("cancel", "compensate"):
        done = Step.objects.filter(
            run_id=run.id, generation=run.generation, status="done", undoable=True, undo_of__isnull=True
        )
        undone = Step.objects.filter(run_id=run.id, generation=run.generation, undo_of__isnull=False, status="done")
        keys = done.exclude(key__in=undone.values("undo_of")).order_by("-seq").values_list("key", flat=True)
        found = list(keys[: _SHOWN_UNDOS + 1])
        outlook["undos"], outlook["more_undos"] = found[:_SHOWN_UNDOS], len(found) > _SHOWN_UNDOS
    return outlook


def _arguments(request: HttpRequest, verb: Verb, run: RunRecord, step: str | None) -> dict[str, Any]:
    """The arguments that an undo has now, for those who may see payloads."""
    if verb.name != "retry_undo" or not may_see_payloads(request.user):
        return {}
    key = f"{str(step).removesuffix('!undo')}!undo"
    rows = beginnings(Step.objects.filter(run_id=run.id, generation=run.generation, key=key), "args")
    row = rows.values("args_begin").first()
    return {} if row is None else {"arguments": shown(row["args_begin"], allowed=True)}


def _back(request: HttpRequest, run_id: str) -> str:
    """Where to go afterwards: the desk, for who came from it; else the run."""
    if request.GET.get("from") == "desk":
        return address(request, "celery_saga_desk")
    return address_of_run(request, run_id)
