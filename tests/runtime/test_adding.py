"""Adding sagas to an app: nothing is loaded early, nothing of the user's is overridden."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, DefinitionError
from celery_saga.runtime.names import COORDINATE, STEP
from celery_saga.runtime.settings import read


def app_with(**conf: Any) -> Celery:
    app = Celery("adding", set_as_current=False)
    app.conf.update(conf)
    return app


def test_adding_does_not_load_the_configuration() -> None:
    app = app_with()

    CelerySaga(app, lease=3)

    assert not app.configured
    assert not app.finalized


def test_options_become_settings_of_the_app() -> None:
    app = app_with()
    CelerySaga(app, lease=3, table_prefix="x_")

    assert app.conf.saga_lease == 3
    assert read(app).lease == 3.0
    assert read(app).table_prefix == "x_"


def test_the_users_own_settings_go_before_options() -> None:
    app = app_with(saga_lease=9)
    CelerySaga(app, lease=3)

    assert read(app).lease == 9.0


def test_settings_of_a_namespace_go_before_options() -> None:
    class Source:
        CELERY_SAGA_LEASE = 7
        CELERY_SAGA_SWEEPER = "no"

    app = Celery("adding", set_as_current=False)
    app.config_from_object(Source, namespace="CELERY")
    CelerySaga(app, lease=3, max_stalls=2)

    assert (read(app).lease, read(app).sweeper, read(app).max_stalls) == (7.0, False, 2)


def test_options_given_to_a_configured_app_are_settings_too() -> None:
    app = app_with(saga_queue="mine")
    assert app.conf.task_default_queue == "celery"
    CelerySaga(app, lease=3, queue="other")

    assert (read(app).lease, read(app).queue) == (3.0, "mine")


def test_adding_again_with_equal_options_changes_nothing() -> None:
    app = app_with()
    first = CelerySaga(app, lease=3)

    second = CelerySaga(app, lease=3)

    assert CelerySaga.of(app) is first
    assert second.app is app


def test_adding_again_with_other_options_is_refused() -> None:
    app = app_with()
    first = CelerySaga(app, lease=3)

    with pytest.raises(DefinitionError, match="has sagas already"):
        CelerySaga(app, lease=4)
    assert CelerySaga.of(app) is first


def test_an_unknown_option_is_refused_by_name() -> None:
    app = app_with()

    with pytest.raises(DefinitionError, match="'leese'"):
        CelerySaga(app, leese=3)
    assert not hasattr(app, "saga")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease", 0),
        ("lease", "soon"),
        ("sweep_interval", timedelta(0)),
        ("max_stalls", -1),
        ("max_payload_bytes", 5),
        ("sweeper", "perhaps"),
        ("database_url", "nonsense"),
        ("database_url", 5),
        ("engine_options", ["x"]),
        ("sagas", 5),
        ("dispatch", "later"),
        ("retention", 0.5),
    ],
)
def test_an_option_outside_its_range_is_refused_at_once_without_loading_the_app(name: str, value: object) -> None:
    app = app_with()
    unbound: list[CelerySaga] = []

    with pytest.raises(DefinitionError, match=f"saga_{name}"):
        CelerySaga(app, **{name: value})
    with pytest.raises(DefinitionError, match=f"saga_{name}"):
        unbound.append(CelerySaga(**{name: value}))

    assert not hasattr(app, "saga")
    assert not app.configured
    assert unbound == []


def test_sagas_given_as_an_iterator_are_all_known() -> None:
    from celery_saga import Run, saga

    @saga(name="adding_iterated")
    def body(run: Run) -> None:
        """Nothing."""

    app = app_with(saga_database_url="sqlite://")

    first = CelerySaga(app, sagas=iter([body]))

    assert CelerySaga(app, sagas=[body]).registry is first.registry
    assert ("adding_iterated", 1) in first.registry.known()


def test_an_app_without_sagas_is_told_what_to_write() -> None:
    with pytest.raises(DefinitionError, match=r"CelerySaga\(app\)"):
        CelerySaga.of(app_with())


def test_an_app_without_a_database_is_told_which_setting() -> None:
    app = app_with()

    with pytest.raises(DefinitionError, match="saga_database_url"):
        _ = CelerySaga(app).engine


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("saga_lease", 0),
        ("saga_lease", "soon"),
        ("saga_lease", float("nan")),
        ("saga_max_stalls", -1),
        ("saga_max_stalls", 1.5),
        ("saga_sweeper", "perhaps"),
        ("saga_publish_timeout", timedelta(0)),
        ("saga_engine_options", ["x"]),
        ("saga_database_url", 5),
    ],
)
def test_a_setting_outside_its_range_is_refused_by_name(name: str, value: object) -> None:
    app = app_with(**{name: value})

    with pytest.raises(DefinitionError, match=name):
        read(app)


def test_durations_may_be_timedeltas_or_text() -> None:
    app = app_with(saga_lease=timedelta(minutes=1), saga_sweep_interval="0.5")

    assert (read(app).lease, read(app).sweep_interval) == (60.0, 0.5)


def test_tasks_of_a_client_keep_their_classes() -> None:
    app = app_with()

    @app.task(name="plain", shared=False)
    def plain() -> int:
        return 1

    CelerySaga(app)
    before = type(app.tasks["plain"])

    assert {COORDINATE, STEP} <= set(app.tasks)
    assert type(app.tasks["plain"]) is before
    assert before.__mro__[1] is app.Task


def test_sagas_are_registered_as_tasks(tmp_path: Path) -> None:
    from celery_saga import Run, saga

    @saga(name="adding_one")
    def body(run: Run) -> None:
        """Nothing."""

    app = app_with(saga_database_url=f"sqlite:///{tmp_path}/x.db", saga_sagas=[body])
    CelerySaga(app)

    assert "saga.adding_one" in app.tasks


def test_a_program_that_configured_no_logging_sees_no_records() -> None:
    told = "import logging, celery_saga\nlogging.getLogger('celery_saga.engine').error('parked')\n"

    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_that_configured_logging_sees_them() -> None:
    told = (
        "import logging, celery_saga\nlogging.basicConfig()\nlogging.getLogger('celery_saga.engine').error('parked')\n"
    )

    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60, check=True)

    assert done.stderr == "ERROR:celery_saga.engine:parked\n"


def test_a_saga_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    app = app_with(saga_database_url=f"sqlite:///{tmp_path}/x.db", saga_sagas=["no.such.saga"])

    with pytest.raises(DefinitionError, match=r"no\.such\.saga"):
        _ = CelerySaga(app).registry
