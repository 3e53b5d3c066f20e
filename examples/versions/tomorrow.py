"""The same step more, for parcels that come to it."""

from celery_saga import Run, saga

from shop import app, check, reserve, send

__all__ = ["app"]


@saga(key="{order_id}")
def parcel(run: Run, order_id: str) -> list[str]:
    done = [run.step(reserve.si(order_id))]
    if run.patched("check-before-payment"):
        done.append(run.step(check.si(order_id)))
    run.wait_signal("paid")
    return [*done, run.step(send.si(order_id))]
