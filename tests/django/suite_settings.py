"""What the project's settings and code say of its sagas, and where runs are kept; run by test_settings.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import Celery, _state
from django.db import connections
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from django.test import override_settings
from shop.sagas import checkout

from celery_saga import CelerySaga, DefinitionError
from celery_saga.runtime.settings import Settings, read
from contrib_django.databases import database_of
from contrib_django.project import celery_app
from tests.django.places import alias, installed, other

MYSQL = "django.db.backends.mysql"
PG = "django.db.backends.postgresql"
DRIVER = "psycopg" if is_psycopg3 else "psycopg2"


def settings_of(app: Celery) -> Settings:
    """As a worker, a client and a sweeper of the app read them."""
    assert app.saga.services.settings == read(app)
    return read(app)


@pytest.mark.parametrize("namespace", ["CELERY", None, "SHOP"])
def test_the_settings_hold_with_and_without_a_namespace(namespace: str | None) -> None:
    with installed(namespace=namespace, CELERY_SAGA_LEASE=12, CELERY_SAGA_EVENTS=True) as app:
        found = settings_of(app)

    assert (found.lease, "RunStarted" in found.events or bool(found.events)) == (12.0, True)
    assert found.database_url


def test_settings_in_a_namespace_of_the_projects_own_hold_too() -> None:
    with installed(namespace="SHOP", SHOP_SAGA_LEASE=7) as app:
        assert settings_of(app).lease == 7.0


def test_an_app_that_was_configured_before_gets_them() -> None:
    with override_settings(CELERY_SAGA_MAX_STALLS=2):
        app = other()
        assert app.conf.broker_url
        with installed(app=app):
            assert settings_of(app).max_stalls == 2


def test_another_app_that_becomes_the_current_one_is_not_taken_for_the_projects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = celery_app()
    another = Celery("another")  # as pytest-celery makes one
    monkeypatch.setattr(_state._tls, "current_app", another, raising=False)

    assert project is not None
    assert celery_app() is project


def test_sagas_are_those_of_the_sagas_modules_and_those_that_are_named() -> None:
    with installed(CELERY_SAGA_SAGAS=["shop.more.nightly"]) as app:
        known = app.saga.registry.known()

    assert {("djshop_nightly", 1), ("djshop_checkout", 1)} <= set(known)


def test_a_path_that_is_no_saga_is_refused_whenever_sagas_are_used() -> None:
    with installed(CELERY_SAGA_SAGAS=["shop.more.daily"]) as app, pytest.raises(DefinitionError, match=r"more\.daily"):
        app.saga.services  # noqa: B018


class TestCodeThatAddsSagasToo:
    def test_without_options_it_is_fine_before_and_after(self) -> None:
        app = other()
        first = CelerySaga(app)
        with installed(app=app, CELERY_SAGA_LEASE=12):
            CelerySaga(app)

            assert app.saga is first
            assert settings_of(app).lease == 12.0

    def test_equal_options_are_fine_before_and_after(self) -> None:
        app = other()
        with override_settings(CELERY_SAGA_LEASE=12, CELERY_SAGA_QUEUE="q"):
            CelerySaga(app, lease=12.0)
            with installed(app=app):
                assert settings_of(app).lease == 12.0
        app = other()
        with installed(app=app, CELERY_SAGA_LEASE=12, CELERY_SAGA_QUEUE="q"):
            CelerySaga(app, lease=12, queue="q")

    @pytest.mark.parametrize("options", [{"lease": 5}, {"table_prefix": "q"}, {"database_url": "sqlite:///other.db"}])
    def test_others_are_refused_by_name(self, options: dict[str, Any]) -> None:
        app = other()
        CelerySaga(app, **options)

        named = f"CELERY_SAGA_{next(iter(options)).upper()}"
        with pytest.raises(DefinitionError, match=named), installed(app=app, CELERY_SAGA_LEASE=12):
            pass

    def test_what_the_settings_do_not_say_the_code_may_say(self) -> None:
        app = other()
        CelerySaga(app, queue="q")
        with installed(app=app, CELERY_SAGA_LEASE=12):
            assert (settings_of(app).lease, settings_of(app).queue) == (12.0, "q")

    def test_others_are_refused_afterwards(self) -> None:
        with installed(CELERY_SAGA_LEASE=12) as app, pytest.raises(DefinitionError, match="other options"):
            CelerySaga(app, lease=5)


class TestWhereRunsAreKept:
    def test_a_url_instead_of_an_alias(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'sagas.db'}"
        with installed(CELERY_SAGA_DATABASE=None, CELERY_SAGA_DATABASE_URL=url) as app:
            assert settings_of(app).database_url == url

    @pytest.mark.parametrize(
        "settings",
        [
            {"CELERY_SAGA_DATABASE": "nowhere"},
            {"CELERY_SAGA_DATABASE": "default", "CELERY_SAGA_DATABASE_URL": "sqlite:///other.db"},
        ],
        ids=["unknown", "both"],
    )
    def test_what_cannot_be_used_is_refused_whenever_sagas_are_used(self, settings: dict[str, Any]) -> None:
        with installed(**settings) as app, pytest.raises(DefinitionError, match="CELERY_SAGA_DATABASE"):
            checkout.start(1, 5)
        assert app.saga

    def test_a_url_that_only_the_celery_app_has_is_refused(self) -> None:
        app = other()
        app.conf.saga_database_url = "sqlite:///other.db"
        with (
            installed(app=app, CELERY_SAGA_DATABASE=None),
            pytest.raises(DefinitionError, match="CELERY_SAGA_DATABASE_URL"),
        ):
            read(app)

    def test_engine_options_go_over_those_of_the_alias(self) -> None:
        said = {"pool_size": 3, "connect_args": {"timeout": 7}}
        with (
            alias("there", ENGINE="django.db.backends.sqlite3", NAME="a.db", OPTIONS={"timeout": 5}),
            installed(CELERY_SAGA_DATABASE="there", CELERY_SAGA_ENGINE_OPTIONS=said) as app,
        ):
            assert settings_of(app).engine_options == said

    def test_services_are_made_anew_when_the_database_has_another_name(self) -> None:
        with (
            alias("moving", ENGINE="django.db.backends.sqlite3", NAME="before.db"),
            installed(CELERY_SAGA_DATABASE="moving") as app,
        ):
            before = app.saga.services
            assert app.saga.services is before

            connections.settings["moving"]["NAME"] = "test_before.db"

            assert app.saga.services is not before
            assert settings_of(app).database_url == "sqlite:///test_before.db"
            assert "poolclass" in settings_of(app).engine_options


class TestDatabases:
    @pytest.mark.parametrize(
        ("said", "url", "arguments"),
        [
            (
                {"NAME": "shop", "HOST": "db", "PORT": "6432", "USER": "me@x", "PASSWORD": "a/b:c%"},
                "me%40x:a%2Fb%3Ac%25@db:6432/shop",
                {},
            ),
            ({"NAME": "shop", "HOST": "::1"}, "[::1]/shop", {}),
            ({"NAME": "shop", "HOST": "/run/pg", "PORT": 5433}, "/shop", {"host": "/run/pg", "port": "5433"}),
            ({"NAME": "shop", "HOST": "a,b", "USER": "me"}, "me@/shop", {"host": "a,b"}),
            (
                {"NAME": "shop", "OPTIONS": {"sslmode": "verify-full", "sslrootcert": "ca.pem", "pool": True}},
                "/shop",
                {"sslmode": "verify-full", "sslrootcert": "ca.pem"},
            ),
            ({"NAME": "", "OPTIONS": {"service": "shop"}}, "/", {"service": "shop"}),
            (
                {"NAME": "shop", "OPTIONS": {"options": "-c search_path=x,public", "assume_role": "the role"}},
                "/shop",
                {"options": "-c search_path=x,public -c role=the\\ role"},
            ),
        ],
        ids=["words", "ipv6", "socket", "several", "ssl", "service", "search-path"],
    )
    def test_postgresql(self, said: dict[str, Any], url: str, arguments: dict[str, Any]) -> None:
        plain = dict.fromkeys(("HOST", "PORT", "USER", "PASSWORD"), "")
        with alias("pg", ENGINE=PG, **{**plain, **said}):
            found = database_of("pg")

        assert found.url.partition("+")[2].partition("://") == (DRIVER, "://", url)
        assert found.connect_args == arguments

    @pytest.mark.parametrize(
        ("name", "url"),
        [
            (Path("/data/a b.db"), "sqlite:////data/a%20b.db"),
            ("db.sqlite3", "sqlite:///db.sqlite3"),
            (":memory:", "sqlite://"),
            ("file:x?mode=memory&cache=shared", "sqlite:///file:x?mode=memory&cache=shared&uri=true"),
        ],
        ids=["path", "relative", "memory", "shared"],
    )
    def test_sqlite(self, name: Any, url: str) -> None:
        options = {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA cache_size=1"}
        with alias("lite", ENGINE="django.db.backends.sqlite3", NAME=name, OPTIONS=options):
            found = database_of("lite")

        assert (found.url, found.connect_args) == (url, {"timeout": 20})

    @pytest.mark.parametrize("option", ["factory", "detect_types"])
    def test_an_option_that_cannot_go_along_is_refused_by_name(self, option: str) -> None:
        with (
            alias("lite", ENGINE="django.db.backends.sqlite3", NAME="x.db", OPTIONS={option: 1}),
            pytest.raises(DefinitionError, match=f"'lite'.*'{option}'"),
        ):
            database_of("lite")

    def test_another_kind_of_database_is_refused(self) -> None:
        with alias("dummy", ENGINE="django.db.backends.dummy"), pytest.raises(DefinitionError, match=r"'dummy'.*dummy"):
            database_of("dummy")

    def test_nothing_shows_the_password(self) -> None:
        with alias("pg", ENGINE=PG, NAME="shop", USER="me", PASSWORD="hunter2"):
            assert "hunter2" not in repr(database_of("pg"))

    @pytest.mark.parametrize(
        ("said", "url", "arguments"),
        [
            (
                {"HOST": "db", "PORT": "3307", "USER": "me", "PASSWORD": "x@y", "OPTIONS": {"ssl": {"ca": "ca.pem"}}},
                "me:x%40y@db:3307/shop",
                {"ssl": {"ca": "ca.pem"}},
            ),
            ({"HOST": "/run/mysqld.sock"}, "/shop", {"unix_socket": "/run/mysqld.sock"}),
            (
                {"OPTIONS": {"isolation_level": "repeatable read", "charset": "utf8mb4", "init_command": "SET x=1"}},
                "/shop",
                {"init_command": "SET x=1"},
            ),
        ],
        ids=["words", "socket", "options"],
    )
    def test_mysql(self, said: dict[str, Any], url: str, arguments: dict[str, Any]) -> None:
        plain = dict.fromkeys(("HOST", "PORT", "USER", "PASSWORD"), "")
        with alias("my", ENGINE=MYSQL, NAME="shop", **{**plain, **said}):
            found = database_of("my")

        assert (found.url, found.connect_args) == (f"mysql+pymysql://{url}", arguments)

    def test_mysql_in_another_character_set_is_refused(self) -> None:
        with (
            alias("my", ENGINE=MYSQL, NAME="shop", OPTIONS={"charset": "latin1"}),
            pytest.raises(DefinitionError, match="'charset'"),
        ):
            database_of("my")
