"""Links with tokens, which are what allows them: looking at one shows a page, and only a POST redeems."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from celery_saga.core.records import RunRecord
from celery_saga.engine import tokens
from celery_saga.errors import DefinitionError, SagaError, SignalExpired
from celery_saga.http import page, problems, strict
from celery_saga.http.asked import Redeem
from celery_saga.http.messages import Request, Response
from celery_saga.http.problems import Problem
from celery_saga.http.responses import of_document, of_page

if TYPE_CHECKING:
    from celery_saga.runtime.app import CelerySaga

__all__ = ["redeem", "show"]

_WHERE = "this link"
_TRUTH = [("Yes", "true"), ("No", "false")]
_UNUSABLE = "This link cannot be used"
_OVER = "The time for this answer is over."
_SAID = {
    "INVALID_TOKEN": "This link does not count, or not any more. If a newer one was sent to you, use that.",
    "RESULT_PURGED": _OVER,
    "RUN_NOT_FOUND": _OVER,
    "SIGNAL_DUPLICATE": "This link was used already.",
    "SIGNAL_EXPIRED": _OVER,
}
"""What a page says, by code, to people who know nothing of runs and signals."""


def show(saga: CelerySaga, request: Request, token: str) -> Response:
    """The page with the form; nothing is redeemed."""
    try:
        found, run = _redeemable(saga, token)
        text = page.confirmation(run.saga, found.signal, _answers(saga, request, run, found.signal))
    except Problem as problem:
        return _told(problem)
    except SagaError as error:
        return _told(problems.of_error(error))
    return of_page(200, text)


def redeem(saga: CelerySaga, request: Request, token: str, limit_bytes: int) -> Response:
    """Send the signal that the token stands for, with the value of the form or of the JSON body.

    Raises:
        Problem, SagaError: it cannot be redeemed, told as JSON; a form is answered with a page.
    """
    kind = strict.media_type(request)
    if kind == strict.JSON:
        body = strict.body_of(request, Redeem, limit_bytes)
        found, _ = _redeemable(saga, token)
        saga.redeem(token, body.value)
        return of_document(200, {"run": found.run_id, "signal": found.signal})
    if kind != strict.FORM:
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", f"a token takes a form or {strict.JSON}; it was not redeemed.")
    try:
        value = strict.json_of(strict.form_of(request).get("value", "null"), "form field value")
        found, run = _redeemable(saga, token)
        saga.redeem(token, value)
    except Problem as problem:
        return _told(problem)
    except SagaError as error:
        return _told(problems.of_error(error))
    return of_page(200, page.note("Thank you", f"Your answer to {found.signal} of {run.saga} was sent."))


def _redeemable(saga: CelerySaga, token: str) -> tuple[tokens.Token, RunRecord]:
    keys = saga.services.settings.secret_keys
    try:
        found = tokens.redeemable(saga.engine.world, keys, token, _WHERE)
    except DefinitionError:
        raise Problem(404, "NOT_FOUND", "tokens are not set up here: saga_secret_keys is not set.") from None
    run = saga.engine.run_of(found.run_id)
    if run.status.is_end:
        raise SignalExpired(f"{_WHERE}: what it answers has ended ({run.status.value}); nothing was sent")
    return found, run


def _answers(saga: CelerySaga, request: Request, run: RunRecord, signal: str) -> list[tuple[str, str]]:
    """The buttons: with the value that the link gives; else yes and no for a bool; else one without a value."""
    given = [value for name, value in parse_qsl(request.query, keep_blank_values=True) if name == "value"]
    if len(given) > 1:
        raise problems.invalid("the link gives 'value' twice; nothing was done.", path="query.value")
    if given:
        return [("Confirm", json.dumps(strict.json_of(given[0], "link's value"), ensure_ascii=False))]
    known = saga.registry.get(run.saga, run.version)
    declared: Any = None if known is None else known.signals.get(signal)
    return _TRUTH if declared is not None and declared.type is bool else [("Confirm", "null")]


def _told(problem: Problem) -> Response:
    said = _SAID.get(problem.code)
    title = _UNUSABLE if said is not None or problem.status == HTTPStatus.NOT_FOUND else "This did not work"
    return of_page(problem.status, page.note(title, said or f"{problem.detail} ({problem.code})"), problem.headers)
