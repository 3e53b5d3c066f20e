"""The system checks, one by one; run by test_checks.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import _state
from django.apps import apps
from django.core.checks import run_checks
from django.test import override_settings

import contrib_django.project
from celery_saga import CelerySaga, Run, saga, step
from contrib_django.checks.codes import CODES, PREFIX
from tests.django.places import alias, installed, other

LITE = "django.db.backends.sqlite3"
RABBIT = "amqp://guest@127.0.0.1:1//"  # nobody listens there


def found(*, steps: bool = False, **options: Any) -> dict[str, Any]:
    """What the checks find of ours, by id without our prefix; the saga below is looked at with `steps`."""
    messages = run_checks(tags=["celery_saga"], **options)
    assert all(each.hint for each in messages)
    there = {each.id.removeprefix(PREFIX): each for each in messages}
    return {code: each for code, each in there.items() if steps or code != "W006"}


def test_nothing_is_wrong_with_the_project() -> None:
    with override_settings(DEBUG=True):
        assert found(steps=True) == {}


def test_no_celery_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_state._tls, "current_app", None, raising=False)
    monkeypatch.setattr(_state, "default_app", None)
    monkeypatch.setattr(_state, "_apps", set())
    monkeypatch.setattr(contrib_django.project, "_installed", [])

    assert contrib_django.project.celery_app() is None
    assert set(found()) == {"E001"}


@pytest.mark.parametrize(
    ("code", "settings", "told"),
    [
        ("E002", {"CELERY_SAGA_LEASE": "soon"}, "CELERY_SAGA_LEASE"),
        ("E003", {"CELERY_SAGA_LEASES": 5}, "CELERY_SAGA_LEASES"),
        ("E004", {"CELERY_SAGA_DATABASE": "nowhere"}, "nowhere"),
        ("E004", {"CELERY_SAGA_DATABASE_URL": "sqlite:///x.db"}, "both"),
        ("E005", {"CELERY_SAGA_SAGAS": ["shop.sagas.charge"]}, "charge"),
        ("E005", {"CELERY_SAGA_SAGAS": ["shop.nowhere.x"]}, "shop.nowhere"),
        ("E006", {"CELERY_SAGA_SCHEDULES": {"a": {"saga": "djshop_nope", "every": 60}}}, "djshop_nope"),
        ("E006", {"CELERY_SAGA_SCHEDULES": {"a": {"saga": "djshop_approved", "cron": "soon"}}}, "soon"),
        ("W002", {"DEBUG": False}, "SQLite"),
        ("W004", {"CELERY_SAGA_SCHEDULES": {"a": {"saga": "djshop_approved", "every": 60, "args": [1]}}}, "BEAT"),
        ("RABBITMQ_CONFIRMS_OFF", {"CELERY_BROKER_URL": RABBIT}, "confirms"),
    ],
)
def test_what_code_and_settings_say(code: str, settings: dict[str, Any], told: str) -> None:
    with installed(**{"DEBUG": True, **settings}):
        there = found()

    assert code in there
    assert told in there[code].msg


def test_settings_are_named_as_in_djangos_settings() -> None:
    said = {"CELERY_BROKER_URL": RABBIT, "CELERY_SAGA_ENGINE_OPTIONS": {"creator": list}}
    with installed(DEBUG=True, **said):
        there = found()

    assert "`CELERY_BROKER_TRANSPORT_OPTIONS = {'confirm_publish': True}`" in there["RABBITMQ_CONFIRMS_OFF"].hint
    (engine,) = (each for code, each in there.items() if code.startswith("ENGINE"))
    assert "`CELERY_SAGA_ENGINE_OPTIONS`" in engine.hint + engine.msg
    with installed(namespace=None, DEBUG=True, BROKER_URL=RABBIT):
        assert all("CELERY_BROKER" not in each.hint for each in found().values())


def test_schedules_with_the_database_scheduler_are_fine() -> None:
    said = {"a": {"saga": "djshop_approved", "every": 60, "args": [1]}}
    scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
    with installed(DEBUG=True, CELERY_SAGA_SCHEDULES=said, CELERY_BEAT_SCHEDULER=scheduler):
        assert found() == {}


def test_schedules_where_django_celery_beat_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    there: Callable[[str], bool] = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_celery_beat" and there(name))
    said = {"a": {"saga": "djshop_approved", "every": 60, "args": [1]}}

    with installed(DEBUG=True, CELERY_SAGA_SCHEDULES=said):
        assert set(found()) == {"W003"}


class TestTransactionsElsewhere:
    def test_requests(self) -> None:
        with (
            alias("other", ENGINE=LITE, NAME="other.db", ATOMIC_REQUESTS=True),
            installed(DEBUG=True, CELERY_SAGA_DATABASE="default"),
        ):
            assert "'other'" in found()["W005"].msg

    def test_requests_in_the_same_one_are_fine(self) -> None:
        with (
            alias("other", ENGINE=LITE, NAME="other.db", ATOMIC_REQUESTS=True),
            installed(DEBUG=True, CELERY_SAGA_DATABASE="other"),
        ):
            assert "W005" not in found()

    def test_transactional_steps(self) -> None:
        with (
            alias("other", ENGINE=LITE, NAME="other.db"),
            installed(DEBUG=True, CELERY_SAGA_DATABASE="other", CELERY_SAGA_SAGAS=[_transactional]),
        ):
            assert "djchecks_transactional" in found(steps=True)["W006"].msg
        with installed(DEBUG=True, CELERY_SAGA_SAGAS=[_transactional]):
            assert found(steps=True) == {}


@saga(name="djchecks_transactional")
def _transactional(run: Run) -> None:
    def inside() -> Any:
        return step(run, transactional=True)  # type: ignore[call-overload]

    inside()


_transactional.body.__module__ = "shop.sagas"


class TestTheDatabase:
    def test_it_is_not_asked_unless_it_may_be(self) -> None:
        with alias("gone", ENGINE=LITE, NAME="/nowhere/x.db"), installed(DEBUG=True, CELERY_SAGA_DATABASE="gone"):
            assert found() == {}
            assert found(databases=["default"]) == {}

    def test_it_cannot_be_reached(self) -> None:
        with alias("gone", ENGINE=LITE, NAME="/nowhere/x.db"), installed(DEBUG=True, CELERY_SAGA_DATABASE="gone"):
            there = found(databases=["gone"])

        assert set(there) == {"E007"}
        assert "--database gone" in there["E007"].hint

    def test_it_is_not_migrated(self, tmp_path: Any) -> None:
        with (
            alias("new", ENGINE=LITE, NAME=tmp_path / "x.db"),
            installed(DEBUG=True, CELERY_SAGA_DATABASE="new") as app,
        ):
            there = found(databases=["new"])
            app.saga.migrate()
            after = found(databases=["new"])

        assert set(there) == {"W001"}
        assert "migrate celery_saga --database new" in there["W001"].hint
        assert after == {}


def test_a_deploy_asks_the_servers_and_finds_what_the_command_does(tmp_path: Any) -> None:
    with (
        alias("new", ENGINE=LITE, NAME=tmp_path / "x.db"),
        installed(DEBUG=True, CELERY_SAGA_DATABASE="new", CELERY_BROKER_URL=RABBIT) as app,
    ):
        app.saga.migrate()
        plain, broker = found(), found(include_deployment_checks=True)
        everything = found(include_deployment_checks=True, databases=["new"])
        command = {each.code for each in app.saga.check()}

    assert set(plain) == {"RABBITMQ_CONFIRMS_OFF"}
    assert "BROKER_UNREACHABLE" in broker
    assert set(everything) == command


def test_code_that_has_added_sagas_is_looked_at_too() -> None:
    app = other()
    CelerySaga(app)
    with installed(app=app, DEBUG=True):
        assert found() == {}


def test_ids_are_unique() -> None:
    assert len({code.name for code in CODES}) == len(CODES)
    assert all(code.name[0] == code.level.value[0].upper() for code in CODES)
