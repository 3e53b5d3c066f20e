"""What projects and the store need to test sagas: contracts, a laboratory, rehearsals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery_saga.testing.call import Call
    from celery_saga.testing.lab import Lab
    from celery_saga.testing.rehearsal import rehearse
    from celery_saga.testing.report import RehearsalFailed, Report, Scene

__all__ = ["Call", "Lab", "RehearsalFailed", "Report", "Scene", "rehearse"]

_HOMES = {"Call": "call", "Lab": "lab", "rehearse": "rehearsal"}

if not TYPE_CHECKING:  # else a checker would believe in every name that somebody imports

    def __getattr__(name: str) -> object:
        """Load a public name from its home on first use: the pytest plug-in costs nothing where it is not used.

        Raises:
            AttributeError: `name` is not in `__all__`.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'report')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, and what a module has anyway."""
    return sorted({*globals(), *__all__})
