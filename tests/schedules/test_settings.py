"""Schedules of the settings: their form, and what a sync adds, changes, removes and leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga
from celery_saga.errors import DefinitionError
from celery_saga.runtime.services import services_of
from tests.schedules.clockwork import Clockwork, make_app, note

NIGHTLY = {"saga": "schedules_note", "cron": "0 3 * * *", "tz": "Europe/Berlin", "args": ["x"]}


@pytest.fixture
def clock() -> Iterator[Clockwork]:
    with Clockwork(make_app()) as clock:
        yield clock


def sync(clock: Clockwork, owner: str = "clockwork", **said: Any) -> Any:
    """As a worker with these settings does when it starts."""
    from dataclasses import replace  # noqa: PLC0415 - of this alone

    services = services_of(clock.lab.app)
    services.engine.schedules.owner = owner
    services.settings = replace(services.settings, schedules=said)
    return clock.lab.app.saga.sync_schedules()


def names(clock: Clockwork) -> dict[str, str]:
    """Source of each schedule, by id."""
    return {each.id: each.source for each in clock.book.all()}


def test_settings_are_added_changed_and_removed_again(clock: Clockwork) -> None:
    first = sync(clock, nightly=NIGHTLY, often={"saga": note, "every": timedelta(minutes=5), "overlap": "allow"})
    again = sync(clock, nightly=NIGHTLY, often={"saga": "schedules_note", "every": 300, "overlap": "allow"})
    changed = sync(clock, nightly={**NIGHTLY, "cron": "0 4 * * *"})

    assert first.put == [("schedules_note", "nightly"), ("schedules_note", "often")]
    assert (again.put, again.removed, again.refused) == ([], [], {})
    assert (changed.put, changed.removed) == ([("schedules_note", "nightly")], [("schedules_note", "often")])
    assert [(each.id, each.pattern, each.source) for each in clock.book.all()] == [("nightly", "0 4 * * *", "settings")]


def test_a_saga_may_be_named_by_its_path(clock: Clockwork) -> None:
    done = sync(clock, nightly={**NIGHTLY, "saga": "tests.schedules.clockwork.note"})

    assert done.put == [("schedules_note", "nightly")]


def test_what_code_and_people_made_is_left_alone(clock: Clockwork) -> None:
    note.schedule("by_code", every=60)
    sync(clock, nightly=NIGHTLY)

    sync(clock)

    assert names(clock) == {"by_code": "code"}


def test_the_settings_take_over_what_they_name(clock: Clockwork) -> None:
    note.schedule("nightly", every=60)

    sync(clock, nightly=NIGHTLY)

    assert names(clock) == {"nightly": "settings"}
    assert clock.record("nightly").pattern == "0 3 * * *"


def test_another_app_on_the_same_database_removes_only_its_own(clock: Clockwork) -> None:
    sync(clock, owner="shop", nightly=NIGHTLY)

    done = sync(clock, owner="warehouse")

    assert (done.removed, names(clock)) == ([], {"nightly": "settings"})


def test_one_that_is_wrong_is_told_and_left_as_it_was_and_the_others_are_written(
    clock: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    sync(clock, a=NIGHTLY, b=NIGHTLY, c=NIGHTLY)
    before = clock.record("a")

    done = sync(
        clock,
        a={**NIGHTLY, "cron": "61 * * * *"},
        b={**NIGHTLY, "saga": "nobody"},
        c={**NIGHTLY, "args": [1, 2, 3]},
        d={**NIGHTLY, "saga": "no.module:saga"},
        e=NIGHTLY,
    )

    assert {name: text.partition(":")[0] for name, text in done.refused.items()} == {
        "a": "DEFINITION_ERROR",
        "b": "UNKNOWN_SAGA",
        "c": "INVALID_ARGUMENT",
        "d": "DEFINITION_ERROR",
    }
    assert sum("is left as it was" in record.message for record in caplog.records) == 4
    assert (done.removed, set(names(clock)), clock.record("a")) == ([], {"a", "b", "c", "e"}, before)


def test_a_pause_by_a_person_outlasts_a_sync(clock: Clockwork) -> None:
    sync(clock, nightly=NIGHTLY)
    clock.book.pause("schedules_note", "nightly", by="ann")

    sync(clock, nightly={**NIGHTLY, "cron": "0 4 * * *"})

    assert clock.record("nightly").paused


@pytest.mark.parametrize(
    "schedules",
    ["0 3 * * *", {"n": "0 3 * * *"}, {"n": {"cron": "0 3 * * *"}}, {"n": {"saga": "x", "crontab": "0 3 * * *"}}],
)
def test_settings_of_another_form_are_refused_when_the_app_is_made(schedules: Any) -> None:
    with pytest.raises(DefinitionError, match="saga_schedules"):
        CelerySaga(Celery("x", set_as_current=False), database_url="sqlite://", schedules=schedules)
