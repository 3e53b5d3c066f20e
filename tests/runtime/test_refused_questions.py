"""What an operator's call cannot mean is refused with an error of ours that says what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, DefinitionError, InvalidPayload, Run, RunHandle, Saga, saga
from celery_saga.runtime.settings import read
from celery_saga.store import open_store


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Celery]:
    made = Celery("asked", set_as_current=False)
    made.conf.update(
        broker_url="memory://", task_always_eager=True, saga_database_url=f"sqlite:///{tmp_path}/x.db", saga_sagas=[]
    )
    CelerySaga(made).migrate()
    yield made
    CelerySaga.of(made).services.close()
    made.close()


@pytest.fixture
def waiting(app: Celery, tmp_path: Path) -> Saga[[], str]:
    @saga(name=f"asked_{tmp_path.name}"[-100:])  # apps of other tests may be alive
    def waiting(run: Run) -> str:
        answer: str = run.wait_signal("go")
        return answer

    CelerySaga.of(app).registry.add(waiting)
    return waiting


@pytest.fixture
def run(app: Celery, waiting: Saga[[], str]) -> RunHandle[Any]:
    started = waiting.start()
    return CelerySaga.of(app).get(started.id)


@pytest.mark.parametrize(
    ("part", "value", "allowed"),
    [
        ("limit", 0, "from 1 to 10000"),
        ("limit", -1, "from 1 to 10000"),
        ("limit", "5", "from 1 to 10000"),
        ("limit", True, "from 1 to 10000"),
        ("limit", 10**20, "from 1 to 10000"),
        ("since", datetime(2026, 1, 1), "aware datetime"),  # noqa: DTZ001
        ("since", "2026-01-01", "aware datetime"),
        ("until", datetime(2026, 1, 1), "aware datetime"),  # noqa: DTZ001
        ("status", "bogus", "queued, running"),
        ("status", ["completed", 5], "queued, running"),
        ("status", 5, "a status or several"),
        ("version", "1", "whole number"),
        ("version", 10**30, "whole number"),
        ("saga", 5, "text"),
        ("key", b"x", "text"),
        ("lane", 5, "text"),
        ("tag", 5, "text"),
        ("after", 5, "text"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_by_name(app: Celery, part: str, value: Any, allowed: str) -> None:
    with pytest.raises(InvalidPayload, match=f"{part}=.*{allowed}") as caught:
        CelerySaga.of(app).runs(**{part: value})
    assert caught.value.path == part


def test_a_status_may_be_named_by_text_or_member_alone_or_with_others(app: Celery, run: RunHandle[Any]) -> None:
    sagas = CelerySaga.of(app)

    pages = [
        sagas.runs(status=given) for given in ("waiting", run.status, ["waiting", "completed"], iter([run.status]))
    ]

    assert [[each.id for each in page] for page in pages] == [[run.id]] * 4
    assert len(sagas.runs(status=[])) == 0


def test_instants_of_any_zone_bound_a_listing(app: Celery, run: RunHandle[Any]) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)

    assert len(CelerySaga.of(app).runs(since=old)) == 1
    assert len(CelerySaga.of(app).runs(until=old)) == 0


@pytest.mark.parametrize("run_id", [5, None, b"x", "\0", "x" * 5000])
def test_what_is_no_run_id_is_refused(app: Celery, waiting: Saga[[], str], run_id: Any) -> None:
    with pytest.raises(InvalidPayload):
        CelerySaga.of(app).get(run_id)
    with pytest.raises(InvalidPayload):
        _ = waiting.get(run_id).status


@pytest.mark.parametrize("signal", [5, None, b"go", "", "  ", "x" * 201, datetime])
def test_what_is_no_signal_is_refused_and_not_sent(run: RunHandle[Any], signal: Any) -> None:
    with pytest.raises(InvalidPayload, match="nothing was sent"):
        run.signal(signal)
    assert run.refresh().export()["signals"] == []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "cannot be read"),
        ("postgresql://u:secret@h:abc/x", "cannot be read"),
        ("mysql://u:secret@[::1/x", "cannot be read"),
        ("foo://u:secret@x/y", "'foo' is not supported"),
        ("postgresql+nosuchdriver://u:secret@h/x", "nosuchdriver"),
        ("sqlite+nosuchdriver:///x", "nosuchdriver"),
    ],
)
def test_a_database_url_that_cannot_be_used_is_told_without_its_password(url: str, told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_an_engine_option_that_sqlalchemy_does_not_know_is_told() -> None:
    with pytest.raises(DefinitionError, match="nonsense"):
        open_store("sqlite://", engine_options={"nonsense": 1})


def test_a_database_url_that_cannot_be_read_is_told_by_the_settings_name() -> None:
    app = Celery("asked", set_as_current=False)
    app.conf.saga_database_url = "nonsense"

    with pytest.raises(DefinitionError, match="saga_database_url"):
        read(app)
