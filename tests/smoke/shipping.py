"""A saga of three steps that waits in its middle, for a worker on this machine or in a container."""

from __future__ import annotations

from celery import shared_task

from celery_saga import Run, Signal, saga

GO = Signal("go", bool)


class NotAllowed(Exception):
    """What the customs office said."""


@shared_task(name="smoke.pack")
def pack(parcel: str) -> str:
    return f"box of {parcel}"


@shared_task(name="smoke.unpack")
def unpack(parcel: str) -> None:
    """The undo of `pack`."""


@shared_task(name="smoke.send")
def send(parcel: str) -> str:
    return f"sent {parcel}"


@saga(name="smoke-shipping", key="{parcel}", errors=[NotAllowed])
def shipping(run: Run, parcel: str) -> str:
    box = run.step(pack.si(parcel), undo=unpack.si(parcel))
    if not run.wait_signal(GO):
        raise NotAllowed(parcel)
    return run.step(send.si(box))
