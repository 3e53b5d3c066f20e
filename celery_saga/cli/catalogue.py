"""The commands by name, each imported when it is called or listed, so that `celery` itself starts as fast as before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import click

__all__ = ["ALSO_CALLED", "COMMANDS", "LazyGroup"]

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "start": "celery_saga.cli.starting:start",
        "runs": "celery_saga.cli.reading:runs",
        "show": "celery_saga.cli.reading:show",
        "history": "celery_saga.cli.reading:history",
        "events": "celery_saga.cli.happening:events",
        "watch": "celery_saga.cli.watching:watch",
        "diagram": "celery_saga.cli.drawing:diagram",
        "signal": "celery_saga.cli.steering:signal",
        "cancel": "celery_saga.cli.steering:cancel",
        "retry": "celery_saga.cli.steering:retry",
        "resume": "celery_saga.cli.resuming:resume",
        "suspend": "celery_saga.cli.repairing:suspend",
        "compensate": "celery_saga.cli.repairing:compensate",
        "skip": "celery_saga.cli.repairing:skip",
        "retry-undo": "celery_saga.cli.repairing:retry_undo",
        "resolve-undo": "celery_saga.cli.repairing:resolve_undo",
        "schedules": "celery_saga.cli.schedules:schedules",
        "desk": "celery_saga.cli.desk:desk",
        "bulk": "celery_saga.cli.bulk:bulk",
        "redispatch": "celery_saga.cli.redispatching:redispatch",
        "announce": "celery_saga.cli.announcing:announce",
        "pause": "celery_saga.cli.lanes:pause",
        "unpause": "celery_saga.cli.lanes:unpause",
        "lanes": "celery_saga.cli.lanes:lanes",
        "set-lane": "celery_saga.cli.lanes:set_lane",
        "forget-lane": "celery_saga.cli.lanes:forget_lane",
        "migrate": "celery_saga.cli.migrating:migrate",
        "check": "celery_saga.cli.health:check",
        "doctor": "celery_saga.cli.health:doctor",
        "versions": "celery_saga.cli.versions:versions",
        "preview": "celery_saga.cli.previewing:preview",
        "reencrypt": "celery_saga.cli.sealing:reencrypt",
        "cost": "celery_saga.cli.costing:cost",
        "purge": "celery_saga.cli.purging:purge",
        "purge-orphans": "celery_saga.cli.purging:purge_orphans",
        "export": "celery_saga.cli.purging:export",
        "import": "celery_saga.cli.purging:import_run",
        "sweeper": "celery_saga.cli.sweeping:sweeper",
        "consume": "celery_saga.cli.consuming:consume",
        "api": "celery_saga.cli.serving:api",
    }
)
"""Where each command is: `module:name`, in the order in which they are listed."""


ALSO_CALLED: Final[Mapping[str, str]] = MappingProxyType({"list": "runs", "get": "show"})
"""Names that other tools have for a command; understood, and not listed."""


class LazyGroup(click.Group):
    """A group whose commands are imported on demand.

    Args:
        places: `module:name` of each command, by its name.
    """

    def __init__(self, *args: Any, places: Mapping[str, str] = COMMANDS, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of the catalogue."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where there is none of that name."""
        place = self._places.get(ALSO_CALLED.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
