"""Routes about sagas: which there are, and how runs of them are started."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from celery_saga.client import documents
from celery_saga.core.records import RunRecord
from celery_saga.definition.graph import build
from celery_saga.definition.saga import Saga
from celery_saga.definition.schemas import parameters_schema, value_schema
from celery_saga.errors import DefinitionError, InvalidPayload
from celery_saga.http.asked import SagaQuery, Start
from celery_saga.http.call import Answer, Call
from celery_saga.http.problems import Problem
from celery_saga.http.strict import idempotency_key

__all__ = ["diagram", "saga", "sagas", "start"]

_OPTIONS = ("key", "countdown", "eta", "deadline", "priority", "lane", "tags", "if_exists")


def sagas(call: Call) -> Answer:
    """The sagas that the app knows."""
    found = sorted(call.registry, key=lambda each: (each.name, each.version))
    return Answer({"sagas": [_document(each) for each in found]})


def saga(call: Call) -> Answer:
    """One saga."""
    query: SagaQuery = call.query
    return Answer(_document(call.named(query.version)))


def diagram(call: Call) -> Answer:
    """What a saga follows, where that is data: a graph or a canvas. A graph that is only stored is drawn too."""
    query: SagaQuery = call.query
    name, version = call.parts["saga"], query.version
    stored = None if version is None else call.store.definition(name, version)
    if stored is not None and call.registry.get(name, stored.version) is None:
        found = build.of_text(Saga, stored.graph_text)
        if found is not None:
            return Answer({"mermaid": found.diagram()})
    try:
        return Answer({"mermaid": call.named(version).diagram()})
    except DefinitionError as error:
        raise Problem(409, error.code, str(error)) from error


def start(call: Call) -> Answer:
    """Start a run, or find the one that its key names."""
    body: Start = call.body
    # The header first: a wrong one is told also where it is not needed.
    header = idempotency_key(call.request)
    definition = call.named(body.version)
    given = {name: value for name in _OPTIONS if (value := getattr(body, name)) is not None}
    args, kwargs = ((), body.args) if isinstance(body.args, dict) else (tuple(body.args or ()), {})
    if header is not None and "key" not in given and _key_of(call, definition, args, kwargs) is None:
        given["key"] = header
    handle = _with_options(definition, given).start_at(call.saga, *args, **kwargs)
    record = call.saga.engine.run_of(handle.id, purged=True)
    if not handle.created and call.access.ask("read", record, call.request) is None:
        record = _outline(record)
    document = {**documents.run_document(record), "created": handle.created}
    location = (("Location", call.link(f"/runs/{record.id}")),)
    return Answer(document, 201 if handle.created else 200, location)


def _key_of(call: Call, definition: Saga[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The key that the saga makes of its arguments; None where it makes none."""
    return definition.new_run(args, kwargs, limit_bytes=call.saga.engine.limits.max_payload_bytes).key


def _with_options(definition: Saga[Any, Any], given: dict[str, Any]) -> Saga[Any, Any]:
    try:
        return definition.options(**given) if given else definition
    except DefinitionError as error:
        raise InvalidPayload(str(error), path="body") from error


def _outline(record: RunRecord) -> RunRecord:
    """A run that was there, for who may start runs of the saga and not read this one."""
    return replace(record, input_text=None, result_text=None, error_text=None, error_step=None)


def _document(found: Saga[Any, Any]) -> documents.Document:
    return {
        "name": found.name,
        "version": found.version,
        "description": inspect.getdoc(found) or "",
        "parameters": parameters_schema(found.payload),
        "signals": {name: value_schema(each.type) for name, each in found.signals.items()},
    }
