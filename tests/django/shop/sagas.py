"""The sagas of the shop."""

from datetime import timedelta

from shop.tasks import PaymentDeclined, charge, close, release, reserve

from celery_saga import Run, Signal, saga

APPROVAL = Signal("approval", bool)


@saga(name="djshop_checkout", key="{order_id}", errors=[PaymentDeclined])
def checkout(run: Run, order_id: int, cents: int) -> str:
    """Reserve, charge and close; what was reserved is put back where the bank says no."""
    run.step(reserve.si(order_id), undo=release)
    charge_id = run.step(charge.si(order_id, cents))
    run.step(close.si(order_id, "paid"))
    return charge_id


@saga(name="djshop_approved", key="{order_id}", signals=[APPROVAL])
def approved(run: Run, order_id: int) -> str:
    """Wait for a person."""
    status = "approved" if run.wait_signal(APPROVAL, timeout=timedelta(days=2), default=False) else "refused"
    run.step(close.si(order_id, status))
    return status
