"""Schemathesis asks what the description allows, and much that it does not: no 500, no answer that is not described."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from celery_saga.http import openapi, wsgi
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.services import per_process
from tests.cli.database import with_tables
from tests.http.project import MAILS, Item, app
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

_PATHS = openapi.document("/")["paths"]
# What has neither a query nor a body cannot be asked wrongly.
ASKED = [
    (method, path, mode)
    for path, item in _PATHS.items()
    for method, told in item.items()
    if method != "parameters"
    for mode in GenerationMode
    if mode.is_positive or "requestBody" in told or any(each["in"] == "query" for each in told.get("parameters", ()))
]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES, MANY_EXAMPLES = 8, 100
"""Of each operation and mode: in a plain run, and in a heavy one."""
DATABASES = [
    "sqlite",
    pytest.param("postgresql", marks=[pytest.mark.heavy, pytest.mark.servers, pytest.mark.timeout(600)]),
    pytest.param("mariadb", marks=[pytest.mark.heavy, pytest.mark.servers, pytest.mark.timeout(600)]),
]


@dataclass(frozen=True)
class Served:
    """The API's description, and what there is to ask for."""

    schema: Any
    parts: dict[str, list[str]]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    before, sagas = app.conf.saga_database_url, app.conf.saga_sagas
    per_process(app).close()
    # A key that breaks is a bug of the project's.
    app.conf.saga_sagas = [name for name in sagas if "leaky" not in name]
    with _DATABASES[request.param](tmp_path_factory.mktemp("schema")) as url:
        app.conf.saga_database_url = with_tables(url)
        yield _served()
        per_process(app).close()
    app.conf.saga_database_url, app.conf.saga_sagas = before, sagas


_DATABASES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": lambda folder: nullcontext(f"sqlite:///{folder / 'saga.db'}"),
    "postgresql": lambda _: fresh_postgresql_database("psycopg2"),
    "mariadb": lambda _: fresh_mariadb_database(),
}


def _served() -> Served:
    extension = CelerySaga.of(app)
    MAILS.clear()
    runs = []
    for name, args in {
        "purchase": [Item("a")],
        "lingering": [],
        "broken": [],
        "clumsy": [],
        "careful": [],
        "asking": ["s"],
        "varied": [],
        "crowd": [["x"]],
    }.items():
        saga = extension.registry.latest(name)
        assert saga is not None
        runs.append(saga.start_at(extension, *args).id)
    schema = schemathesis.openapi.from_wsgi("/openapi.json", wsgi(app, lambda *_: "ann", waiting=4))
    parts = {"run": runs, "saga": ["purchase", "lingering", "asking"], "token": list(MAILS), "schedule": ["hourly"]}
    return Served(schema, parts)


@pytest.mark.parametrize("served", DATABASES, indirect=True, scope="module")
@pytest.mark.parametrize(("method", "path", "mode"), ASKED, ids=str)
def test_every_answer_is_described_and_none_is_a_500(
    method: str, path: str, mode: GenerationMode, served: Served, request: pytest.FixtureRequest
) -> None:
    operation = served.schema[path][method]
    cases = operation.as_strategy(generation_mode=mode)
    there = st.fixed_dictionaries({name: st.sampled_from([*found, None]) for name, found in served.parts.items()})
    statuses = set()

    @settings(
        max_examples=MANY_EXAMPLES if request.node.get_closest_marker("heavy") else EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, there=there)
    def ask(case: Any, there: dict[str, str | None]) -> None:
        replaced = False
        for name in case.path_parameters or {}:
            if there[name] is not None:
                case.path_parameters[name], replaced = there[name], True
        if "wait" in (case.query or {}):
            case.query["wait"] = 0.01
            replaced = True
        response = case.call()
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS if replaced else [*CHECKS, negative_data_rejection])

    ask()
    assert statuses
