"""The command line, HTTP and Python give the same documents for the same run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from celery_saga.cli.group import saga as group
from celery_saga.client import documents
from celery_saga.core.records import StepKind
from celery_saga.core.status import RunStatus
from celery_saga.definition import chart
from celery_saga.http import wsgi
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.services import per_process
from tests.cli.database import with_tables
from tests.http import project
from tests.http.client import Client, Got
from tests.http.project import APPROVAL, Item, app


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CelerySaga]:
    """The project on a database of its own."""
    before = app.conf.saga_database_url
    per_process(app).close()
    app.conf.saga_database_url = with_tables(f"sqlite:///{tmp_path_factory.mktemp('same') / 'saga.db'}")
    yield CelerySaga.of(app)
    per_process(app).close()
    app.conf.saga_database_url = before


def command(*words: str) -> list[Any]:
    """What a command prints with --json: a document a line."""
    done = CliRunner().invoke(group, [*words, "--json"], obj=SimpleNamespace(app=app, no_color=True))
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def runs(extension: CelerySaga) -> list[str]:
    """A run in each status, and steps of each kind."""
    project.MAILS.clear()
    found = [make(extension) for make in _MAKERS]
    app.conf.task_always_eager = False
    per_process(app).close()
    try:
        found += [make(extension) for make in _UNDRIVEN]
    finally:
        app.conf.task_always_eager = True
        per_process(app).close()
    return found


def _of(saga: str, *args: Any) -> Callable[[CelerySaga], str]:
    return lambda extension: str(_known(extension, saga).start_at(extension, *args).id)


def _known(extension: CelerySaga, name: str) -> Any:
    found = extension.registry.latest(name)
    assert found is not None
    return found


def _approved(sku: str, *, approved: bool, again: bool = False) -> Callable[[CelerySaga], str]:
    def make(extension: CelerySaga) -> str:
        run = _of("purchase", Item(sku, 2))(extension)
        extension.get(run).signal(APPROVAL, approved, id="once")
        if again:
            extension.get(run).retry(reason="again", by="ann")
        return run

    return make


def _cancelled(extension: CelerySaga) -> str:
    run = _of("purchase", Item("c"))(extension)
    extension.get(run).cancel(reason="not wanted", by="ann")
    return run


def _listened_to(extension: CelerySaga) -> str:
    run = _of("lingering", "a note")(extension)
    extension.chord(run, ["go"])(project.reserve.si("heard"))
    return run


def _coordinated(extension: CelerySaga) -> str:
    run = _of("purchase", Item("r"))(extension)
    extension.engine.coordinate(run)
    return run


def _compensating(extension: CelerySaga) -> str:
    run = _coordinated_of(extension, "k")
    claimed = extension.engine.claim(run, 1, "reserve", owner="host:1")
    assert claimed is not None
    extension.get(run).cancel()
    return run


def _coordinated_of(extension: CelerySaga, sku: str) -> str:
    run = _of("purchase", Item(sku))(extension)
    extension.engine.coordinate(run)
    return run


_MAKERS = [
    _approved("a", approved=True),
    _approved("f", approved=False),
    _approved("g", approved=False, again=True),
    _cancelled,
    _of("purchase", Item("w")),
    _listened_to,
    _of("broken"),
    _of("clumsy"),
    _of("careful"),
    _of("asking", "s3cret"),
    _of("family"),
    _of("crowd", ["x", "y"]),
    _of("varied"),
]
_UNDRIVEN = [_of("lingering", "later"), _coordinated, _compensating]


@pytest.fixture
def client(extension: CelerySaga) -> Client:
    return Client(wsgi(app, lambda *_: True))


def _same(cli: Any, http: Any, python: Any) -> Any:
    written = json.loads(documents.text(python))
    assert cli == http == written
    return written


def test_a_run_is_the_same_document_everywhere(runs: list[str], client: Client, extension: CelerySaga) -> None:
    kinds, statuses = set(), set()
    for run in runs:
        handle = extension.get(run)
        record, signals = extension.engine.run_of(run), extension.store.signals(run)
        python = documents.shown_document(record, handle.steps(), handle.waiting_on, signals, traceback=True)

        (cli,) = command("show", run, "--all", "--traceback")
        shown = _same(cli, client.get(f"/runs/{run}?all=true&traceback=true").json, python)

        statuses.add(shown["status"])
        kinds |= {step["kind"] for step in shown["steps"]}
        assert client.get(f"/runs/{run}/steps?all=true").json["steps"] == shown["steps"]
        assert client.get(f"/runs/{run}/waiting").json["waiting_on"] == shown["waiting_on"]
        assert client.get(f"/runs/{run}?traceback=true").json == command("show", run, "--traceback")[0]
        (plain,) = command("show", run)
        assert plain == client.get(f"/runs/{run}").json
        assert plain["error"] == documents.run_document(record)["error"]
    assert statuses == {each.value for each in RunStatus}
    assert kinds == {each.value for each in StepKind}


def test_a_history_is_the_same_everywhere(runs: list[str], client: Client, extension: CelerySaga) -> None:
    for run in runs:
        python = [documents.history_document(row) for row in extension.get(run).history()]

        found = _same(command("history", run), client.get(f"/runs/{run}/history").json["history"], python)

        assert client.get(f"/runs/{run}/events").json["events"] == found
        assert client.get(f"/runs/{run}/history?after=1").json["history"] == command("history", run, "--after", "1")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"saga": "purchase"},
        {"status": "waiting"},
        {"attention": True},
        {"tag": "shop", "limit": 2},
        {"key": "a"},
    ],
    ids=str,
)
def test_a_listing_is_the_same_everywhere(
    asked: dict[str, Any], runs: list[str], client: Client, extension: CelerySaga
) -> None:
    words = [
        word
        for name, value in asked.items()
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]
    query = "&".join(f"{name}={json.dumps(value) if value is True else value}" for name, value in asked.items())

    page = extension.runs(**asked)
    found = client.get(f"/runs?{query}").json
    _same(command("runs", *words), found["runs"], [documents.run_document(run) for run in page])

    assert found["runs"]
    assert found["next"] == page.next


def test_the_desk_is_the_same_everywhere(runs: list[str], client: Client, extension: CelerySaga) -> None:
    page = extension.desk()

    found = client.get("/desk").json
    _same(command("desk", "list"), found["desk"], [documents.desk_document(entry) for entry in page])
    assert {entry["why"] for entry in found["desk"]} == {"body_error", "on_failure", "undo_failed"}
    first = client.get("/desk?limit=1")
    assert first.json["desk"] + client.get(_next(first)).json["desk"] == found["desk"][:2]


def _next(got: Got) -> str:
    return got.headers["link"].partition(">")[0].removeprefix("<")


def test_lanes_are_the_same_everywhere(client: Client, extension: CelerySaga) -> None:
    paused = client.post("/lanes/pause", {"saga": "purchase", "reason": "stock-taking"}).json

    found = client.get("/lanes").json["lanes"]
    _same(command("lanes"), found, [documents.lane_document(each) for each in extension.lanes()])
    assert paused in found
    assert (paused["kind"], paused["name"], paused["paused_reason"]) == ("saga", "purchase", "stock-taking")
    changed = client.post("/lanes/unpause", {"saga": "purchase"}).json
    assert changed == {**command("unpause", "--saga", "purchase")[0], "changed": True}
    assert client.post("/lanes/forget", {"lane": "none"}).json == command("forget-lane", "none")[0]


def test_a_diagram_is_the_same_everywhere(runs: list[str], client: Client, extension: CelerySaga) -> None:
    for run in runs:
        python = {"mermaid": chart.of_steps(extension.store.steps(run))}

        _same(command("diagram", run)[0], client.get(f"/runs/{run}/diagram").json, python)


def test_progress_and_export_are_those_of_the_handle(runs: list[str], client: Client, extension: CelerySaga) -> None:
    told = 0
    for run in runs:
        handle = extension.get(run)
        progress = {key: documents.progress_document(each) for key, each in handle.progress.items()}

        assert client.get(f"/runs/{run}/progress").json["progress"] == json.loads(documents.text(progress))
        export = json.dumps(client.get(f"/runs/{run}/export").json)
        for token in project.MAILS:  # the one thing that is shown to nobody
            assert token not in export
            export = export.replace("saga-token.***", token)
        assert json.loads(export) == json.loads(json.dumps(handle.export()))
        told += len(progress)
    assert told
    assert len(project.MAILS) == 1


def test_what_is_done_is_answered_alike(client: Client, extension: CelerySaga) -> None:
    def shape(document: Any) -> Any:
        return {name: type(value) for name, value in document.items()}

    cli = command("start", "purchase", "--arg", 'item={"sku": "s1"}')[0]
    http = client.post("/sagas/purchase/runs", {"args": {"item": {"sku": "s2"}}}).json
    verbs = [
        ("suspend", {}, ()),
        ("resume", {}, ()),
        ("signal", {"name": "approval", "value": True}, ("approval", "--value", "true")),
        ("compensate", {}, ()),
        ("cancel", {}, ()),
    ]
    assert shape(cli) == shape(http)
    for verb, body, words in verbs:
        told = command(verb, cli["id"], *words)[0]
        path = "signals" if verb == "signal" else verb
        answered = client.post(f"/runs/{http['id']}/{path}", body)
        assert answered.status == 200, answered
        assert shape(answered.json) == shape(told), verb
