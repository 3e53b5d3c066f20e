"""A copy with other values is what `dataclasses.replace` gives."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from celery_saga.core import replacing
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.testing.samples import a_run, a_step


@dataclass(frozen=True)
class Open:
    """Has no slots."""

    number: int = 1


@dataclass(frozen=True, slots=True)
class Checked:
    """Does more than to hold its fields."""

    number: int = 1

    def __post_init__(self) -> None:
        """Refuses."""
        if self.number < 0:
            raise ValueError(self.number)


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (a_run(), {"sends": 4, "priority": 2}),
        (a_step("r"), {"result_text": "1"}),
        (Snapshot(a_run()), {"woken": True}),
        (a_run(), {}),
        (Open(), {"number": 2}),
        (Checked(), {"number": 2}),
    ],
    ids=["run", "step", "snapshot", "nothing", "no_slots", "checked"],
)
def test_a_copy_is_what_the_standard_library_makes(record: Any, changes: dict[str, Any]) -> None:
    before = dataclasses.asdict(record)

    made = replace(record, **changes)

    assert made == dataclasses.replace(record, **changes)
    assert type(made) is type(record)
    assert dataclasses.asdict(record) == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, "x")


def test_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        replace(a_run(), colour="red")  # type: ignore[call-arg]


def test_what_a_class_checks_is_checked() -> None:
    with pytest.raises(ValueError, match="-1"):
        replace(Checked(), number=-1)


def test_records_are_copied_the_quick_way() -> None:
    for record in (a_run(), a_step("r"), Snapshot(a_run())):
        replace(record)
    assert all(replacing._COPIES[cls] is not None for cls in (RunRecord, StepRecord, Snapshot))
