"""What is to happen for an order, and every night."""

from datetime import timedelta

from celery_saga import Run, Signal, saga

from orders import tasks

APPROVAL = Signal("approval", bool)
APPROVED_ABOVE_CENTS = 50_000


@saga(
    key="order-{order_id}",
    errors=[tasks.OutOfStock, tasks.PaymentDeclined, tasks.Refused],
    signals=[APPROVAL],
)
def checkout(run: Run, order_id: int, card: str, cents: int) -> str:
    """Reserve, charge, let a person look at large orders, ship. What was done is undone when it cannot finish."""
    run.step(tasks.open_order.si(order_id), undo=tasks.close_undone.si(order_id), transactional=True)
    run.step(tasks.reserve.si(order_id), undo=tasks.release.si(order_id), transactional=True)
    run.step(tasks.charge.si(card, cents, run.id), undo=tasks.refund)
    if cents > APPROVED_ABOVE_CENTS and not run.wait_signal(APPROVAL, timeout=timedelta(days=2), default=False):
        raise tasks.Refused("nobody approved it")
    parcel = run.step(tasks.ship.si(order_id))
    run.step(tasks.close_shipped.si(order_id, parcel), transactional=True)
    return parcel


@saga
def restock(run: Run) -> int:
    """Every night: order again what is nearly sold out."""
    short = run.step(tasks.nearly_sold_out.si())
    run.map(tasks.fill_up, short)
    return len(short)
