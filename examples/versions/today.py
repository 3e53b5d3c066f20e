"""What is deployed today."""

from celery_saga import Run, saga

from shop import app, reserve, send

__all__ = ["app"]


@saga(key="{order_id}")
def parcel(run: Run, order_id: str) -> list[str]:
    held = run.step(reserve.si(order_id))
    run.wait_signal("paid")
    return [held, run.step(send.si(order_id))]
