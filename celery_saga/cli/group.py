"""What the entry point `celery.commands` loads: the group `saga`, and the worker's option `--no-saga-sweeper`."""

from __future__ import annotations

from typing import Any

import click
from celery.bin.worker import worker

from celery_saga.cli.catalogue import LazyGroup

__all__ = ["saga"]


# Every call of `celery` imports this module: nothing heavy may be imported by it. What
# it imports of Celery is loaded by then.
@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def saga(**_preload: Any) -> None:
    """Durable sagas: start, follow and steer runs."""


def _add_worker_option() -> None:
    name = "--no-saga-sweeper"
    if not any(name in parameter.opts for parameter in worker.params):
        option = click.Option([name], is_flag=True, help="Do not wake due runs from this worker.")
        option.help_group = "Saga Options"  # type: ignore[attr-defined]  # read by Celery's own help
        worker.params.append(option)


_add_worker_option()
