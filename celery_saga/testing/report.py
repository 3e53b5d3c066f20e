"""What a rehearsal found."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RehearsalFailed", "Report", "Scene"]


@dataclass(frozen=True, slots=True)
class Scene:
    """One run of a rehearsal.

    Args:
        name: what was done to it, like `charge fails after its effect`.
        status: how it ended, or what it is if it did not.
        fault: what was wrong; None: nothing.
        note: what is worth knowing although it is right.
    """

    name: str
    status: str
    fault: str | None = None
    note: str | None = None

    def __str__(self) -> str:
        said = self.fault or self.note
        return f"{self.name}: {self.status}{'' if said is None else ' - ' + said}"


@dataclass(frozen=True, slots=True)
class Report:
    """All runs of a rehearsal, in order; it stops at the first fault.

    Args:
        saga: name of the saga.
        steps: keys of the steps of the undisturbed run, in the order in which they were called.
        scenes: the runs.
        line: `file:line` of the body where it was not deterministic; None: it was.
        doubts: lines on which the body reads a clock or draws at random by itself, although no replay differed.
    """

    saga: str
    steps: tuple[str, ...]
    scenes: tuple[Scene, ...]
    line: str | None = None
    doubts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing was wrong."""
        return self.fault is None

    @property
    def fault(self) -> Scene | None:
        """The run in which something was wrong."""
        return next((scene for scene in self.scenes if scene.fault is not None), None)

    @property
    def notes(self) -> list[str]:
        """What is worth knowing although it is right."""
        return [*self.doubts, *(str(scene) for scene in self.scenes if scene.note is not None)]

    def __str__(self) -> str:
        fault = self.fault
        found = "nothing was wrong" if fault is None else str(fault)
        return "\n".join([f"rehearsal of {self.saga!r}, {len(self.scenes)} runs: {found}", *self.notes])


class RehearsalFailed(AssertionError):
    """A rehearsal found a fault; `report` tells all."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
