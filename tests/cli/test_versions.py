"""`versions` and `preview`: what is alive, who knows it, and what a deploy would break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from celery_saga.store import open_store
from tests.cli.database import with_tables
from tests.cli.program import Program

OLD, NEW = "tests.cli.project", "tests.cli.next_project"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return with_tables(f"sqlite:///{tmp_path / 'saga.db'}")


@pytest.fixture
def old(url: str, tmp_path: Path) -> Program:
    """The code that made the runs."""
    return Program("celery-saga", OLD, url, tmp_path)


@pytest.fixture
def new(url: str) -> Program:
    """The code that is to be deployed."""
    return Program("celery saga", NEW, url)


def beat(url: str, name: str, *sagas: tuple[str, int]) -> None:
    """A live sweeper that knows these sagas."""
    store = open_store(url)
    try:
        store.beat(name, host="h", pid=os.getpid(), sagas=sagas, ttl_s=15.0)
    finally:
        store.close()


def test_versions_says_which_workers_know_what_and_what_nobody_knows(url: str, old: Program, new: Program) -> None:
    old.ok("start", "order", "--arg", 'line={"sku": "a1"}')
    beat(url, "h:1", ("order", 2), ("fragile", 1))
    beat(url, "h:2", ("fragile", 1))

    found = {(each["saga"], each["version"]): each for each in new.ok("versions", "--json").lines}
    told = new.ok("versions").out

    assert found["order", 1] == {
        "saga": "order",
        "version": 1,
        "live_runs": 1,
        "known_here": False,
        "workers": [],
        "orphaned": True,
    }
    assert found["order", 2]["workers"] == ["h:1"] and found["order", 2]["known_here"]
    assert found["fragile", 1]["workers"] == ["h:1", "h:2"] and not found["fragile", 1]["orphaned"]
    assert "no live worker knows order version 1, which 1 live run needs" in told

    beat(url, "h:3", ("order", 1))
    assert "no live worker" not in new.ok("versions").out


def test_preview_says_that_the_code_fits(old: Program) -> None:
    old.ok("start", "order", "--arg", 'line={"sku": "a1"}')

    assert old.ok("preview").out == "1 live run replayed, none would break\n"
    assert old.ok("preview", "--json").document == {"replayed": 1, "broken": []}


def test_preview_lists_what_would_break_and_ends_with_1(old: Program, new: Program, tmp_path: Path) -> None:
    lost = old.ok("start", "order", "--arg", 'line={"sku": "a1"}', "--json").document
    (tmp_path / "dear").touch()  # parks the run that asks for a price
    parked = old.ok("start", "careful", "--args", "[1]", "--json").document
    before = [old.ok("show", each["id"], "--json").out for each in (lost, parked)]

    done = new("preview", "--json")
    told = new("preview")

    assert (done.code, told.code) == (1, 1)
    assert done.err.startswith("PREVIEW_FOUND_BREAKS: 2 of 2 live runs would break: ")
    found = {each["run"]: each for each in done.document["broken"]}
    assert found[lost["id"]]["reason"] == "unknown_version"
    assert (found[lost["id"]]["key"], found[lost["id"]]["status"]) == ("a1", "waiting")
    assert found[parked["id"]]["reason"] == "non_determinism"
    assert "'price'" in found[parked["id"]]["message"] and "'reserve'" in found[parked["id"]]["message"]
    assert lost["id"] in told.out and "version 1" in told.out
    assert [old.ok("show", each["id"], "--json").out for each in (lost, parked)] == before
