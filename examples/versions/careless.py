"""A step more, in front of where parcels wait: it would park every one of them."""

from celery_saga import Run, saga

from shop import app, check, reserve, send

__all__ = ["app"]


@saga(key="{order_id}")
def parcel(run: Run, order_id: str) -> list[str]:
    held = run.step(reserve.si(order_id))
    checked = run.step(check.si(order_id))
    run.wait_signal("paid")
    return [held, checked, run.step(send.si(order_id))]
