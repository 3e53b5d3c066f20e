"""A Celery project as people have it, and the same one with a saga added."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, name_of
from tests.examples.project import HOME, Project
from tests.servers import PrivateRedis

MOST_LINES = 15
NEW_FILE = Path("shop/orders/sagas.py")

ALONE = (
    "from celery import chain",
    "from shop.orders.tasks import release, reserve, ship",
    "from shop.payments.tasks import charge, refund",
    "print(chain(reserve.si('o1'), charge.si('order-o1', 500), ship.si('o1')).delay().get(20))",
    "print(charge.delay('order-o2', 13).get(20))",
    "print(refund.apply_async(('charge-13',)).get(20))",
    "print(type(ship.delay('rare').get(20, propagate=False)).__name__)",
    "print(sorted(name for name in shop.celery_app.tasks if name.startswith('shop.')))",
    "print(reserve('direct'), shop.celery_app.conf.task_acks_late)",
)


def test_a_saga_costs_a_new_file_and_a_handful_of_lines() -> None:
    before, after = _files("before"), _files("after")

    assert set(after) - set(before) == {NEW_FILE}
    assert set(before) - set(after) == set()
    assert 0 < len(changed_lines()) <= MOST_LINES


def test_no_file_with_tasks_was_touched() -> None:
    assert {path for path, text in _files("before").items() if _files("after")[path] != text} == {
        Path("shop/celery.py"),
        Path("shop/settings.py"),
        Path("shop/orders/service.py"),
    }


@pytest.mark.servers
def test_the_tasks_behave_outside_a_saga_as_before(
    private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path
) -> None:
    told: dict[str, tuple[list[str], list[str]]] = {}
    for name in ("before", "after"):
        project = Project(name, tmp_path / name, private_redis.url, private_redis.url, postgresql_url)
        if name == "after":
            project.saga("migrate")

        with project.worker():
            told[name] = project.script(*ALONE), project.calls()

    answers, calls = told["before"]
    assert told["after"] == told["before"]
    assert answers[:4] == ["parcel-o1", "charge-13", "None", "OutOfStock"]
    assert "shop.orders.tasks.reserve" in answers[4]
    assert calls.count("charge order-o2 13") == 2
    assert calls.count("refund charge-13") == 2


@pytest.fixture(params=["redis", "rabbitmq"])
def project(request: pytest.FixtureRequest, postgresql_url: str, tmp_path: Path) -> Iterator[Project]:
    broker = "private_redis" if request.param == "redis" else "rabbitmq_url"
    found = request.getfixturevalue(broker)
    yield Project("after", tmp_path / "books", getattr(found, "url", found), "", postgresql_url)


@pytest.mark.servers
def test_a_run_completes_and_another_is_undone(project: Project) -> None:
    project.saga("migrate")

    with project.worker():
        printed = project.script(
            "from celery_saga import RunFailed",
            "from shop.orders.service import place",
            "print(place('o1', 13).wait(30))",
            "try:",
            "    place('rare', 500).wait(40)",
            "except RunFailed as error:",
            "    print(type(error.cause).__name__, error.step)",
        )

    completed, undone = project.saga("show", "checkout:o1"), project.saga("show", "checkout:rare")
    assert printed == ["parcel-o1", "OutOfStock ship"]
    assert (completed["status"], completed["result"]) == ("completed", "parcel-o1")
    assert undone["status"] == "failed"
    assert [(step["key"], step["status"]) for step in undone["steps"]] == [
        *(("reserve", "done"), ("charge", "done"), ("ship", "failed")),
        *(("charge!undo", "done"), ("reserve!undo", "done")),
    ]
    charged, again = (line.split() for line in project.calls() if line.startswith("charge") and line.endswith(" 13"))
    assert charged == again
    assert [line.split()[0] for line in project.calls() if "rare" in line or "500" in line] == [
        *("reserve", "charge", "ship"),
        *("refund", "refund", "release"),
    ]


@pytest.mark.servers
def test_both_scripts_find_the_app_and_its_sagas_from_the_folder(postgresql_url: str, tmp_path: Path) -> None:
    project = Project("after", tmp_path / "books", "redis://127.0.0.1:1/0", "", postgresql_url)
    project.command("celery", "-A", "shop", "saga", "migrate")

    listed = [
        project.command("celery", "-A", "shop", "saga", "versions"),
        project.command("celery-saga", "-A", "shop", "versions"),
    ]

    assert listed[0] == listed[1]
    assert re.search(r"checkout +1 +0 +yes", listed[0])


@pytest.mark.servers
@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "examples/existing_project/README.md"], ids=name_of)
def test_the_lines_of_the_two_terminals_do_what_the_page_says(
    page: Path, private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path
) -> None:
    """Literally, but for what is installed and made beforehand, and where the servers are."""
    project = Project("after", tmp_path / "books", private_redis.url, "", postgresql_url)
    first, second = ([line.removeprefix("$ ") for line in block.text.splitlines()] for block in blocks(page, "console"))
    *made, worker = [line for line in first if not line.startswith(("pip ", "createdb ", "export "))]
    then = [line for line in second if not line.startswith("export ")]

    assert worker == "celery -A shop worker -Q orders,payments"
    project.type_in(page.parent, made)
    with project.worker():
        printed = project.type_in(page.parent, then)

    assert re.search(r"^status +completed$", printed, re.M)
    assert [line for line in first if line.startswith("export ")] == [x for x in second if x.startswith("export ")]
    assert {line.split()[1].partition("=")[0] for line in first if line.startswith("export ")} <= {
        *project.environment.keys()
    }


@pytest.mark.servers
def test_an_order_is_taken_while_the_broker_is_down_and_twice_is_one_run(postgresql_url: str, tmp_path: Path) -> None:
    project = Project("after", tmp_path / "books", "redis://127.0.0.1:1/0", "", postgresql_url)
    project.saga("migrate")

    first = project.saga("start", "checkout", "--arg", 'order_id="o7"', "--arg", "cents=700")
    again = project.saga("start", "checkout", "--args", '["o7", 700]')

    assert (first["created"], first["status"]) == (True, "queued")
    assert (again["created"], again["id"]) == (False, first["id"])


def changed_lines() -> list[str]:
    """Lines that went or came between the two, but for the new file."""
    before, after = _files("before"), _files("after")
    return [
        line
        for path, text in sorted(before.items())
        for line in difflib.ndiff(text.splitlines(), after[path].splitlines())
        if line.startswith(("+ ", "- ")) and line[2:].strip()
    ]


def _files(name: str) -> dict[Path, str]:
    top = HOME / name
    return {path.relative_to(top): path.read_text() for path in sorted(top.rglob("*.py"))}
