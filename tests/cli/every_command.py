"""What each command of the catalogue is called with to succeed; a new command gets a line here."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Way:
    """How a command succeeds.

    `words` follow its name; `{order}` is a run that waits for a signal, `{done}` one that has completed, `{parked}` a
    suspended one, `{failed}` one that has failed, `{stuck}` one whose undo is used up, `{schedule}` a schedule of
    `fragile`, `{exported}` a file with a run that is not there any more, each of them used by this command alone.
    `codes` are its exit codes, where it may find something. `missing`: its first code on stderr where what it is about
    is not there; empty: it is about nothing. `serves`: it goes on until SIGTERM.
    """

    words: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)
    serves: bool = False

    @property
    def missing(self) -> str:
        """The code that tells that a run, or a schedule, is not there."""
        about = {kind for kind in KINDS if f"{{{kind}}}" in self.words} - {"exported"}
        return "" if not about else "SCHEDULE_NOT_FOUND" if about == {"schedule"} else "RUN_NOT_FOUND"

    def about(self, runs: dict[str, str]) -> tuple[str, ...]:
        """The words with these runs."""
        return tuple(runs.get(word.strip("{}"), word) if word.startswith("{") else word for word in self.words)


KINDS = ("order", "done", "parked", "failed", "stuck", "schedule", "exported")
WAYS = MappingProxyType(
    {
        "start": Way(("fragile", "--arg", 'name="new"')),
        "runs": Way(),
        "show": Way(("{order}",)),
        "history": Way(("{order}",)),
        "watch": Way(("{done}",)),
        "events": Way(("{done}",)),
        "diagram": Way(("{done}",)),
        "signal": Way(("{order}", "approval", "--value", "true")),
        "cancel": Way(("{order}",)),
        "retry": Way(("{failed}",)),
        "resume": Way(("{parked}",)),
        "suspend": Way(("{order}",)),
        "compensate": Way(("{done}",)),
        "skip": Way(("{parked}", "price")),
        "retry-undo": Way(("{stuck}", "reserve")),
        "resolve-undo": Way(("{stuck}", "reserve", "--outcome", "done")),
        "desk list": Way(),
        "desk retry": Way(("{stuck}", "reserve")),
        "desk done": Way(("{stuck}", "reserve")),
        "desk skip": Way(("{stuck}", "reserve", "--reason", "lost")),
        "redispatch": Way(("--dry-run",)),
        "bulk": Way(("resume", "--saga", "careful")),
        "schedules list": Way(),
        "schedules add": Way(("fragile", "hourly", "--every", "3600", "--arg", 'name="s"')),
        "schedules show": Way(("fragile", "{schedule}")),
        "schedules remove": Way(("fragile", "{schedule}")),
        "schedules pause": Way(("fragile", "{schedule}")),
        "schedules unpause": Way(("fragile", "{schedule}")),
        "schedules fires": Way(("fragile", "{schedule}")),
        "announce": Way(("{done}", "--worker", "w@shop")),
        "pause": Way(("--lane", "bank")),
        "unpause": Way(("--lane", "bank")),
        "lanes": Way(),
        "set-lane": Way(("--lane", "bank", "--cap", "2")),
        "forget-lane": Way(("mistyped",)),
        "purge": Way(("--older-than", "30d", "--dry-run")),
        "purge-orphans": Way(("--older-than", "1d"), codes=(1,)),  # the project has no offload
        "export": Way(("{done}",)),
        "import": Way(("{exported}",)),
        "migrate": Way(),
        "check": Way(codes=(0, 1)),
        "doctor": Way(codes=(0, 1)),
        "versions": Way(),
        "preview": Way(),
        "cost": Way(),
        "reencrypt": Way(codes=(1,)),
        "sweeper": Way(serves=True),
        "consume": Way(serves=True),
        "api": Way(("--port", "0"), serves=True),
    }
)
"""Of each command, by its name; those of a group by the group's name and their own, with a blank between."""
