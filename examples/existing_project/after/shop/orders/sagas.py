from celery_saga import Run, saga

from shop.orders.tasks import OutOfStock, release, reserve, ship
from shop.payments.tasks import GatewayTimeout, charge, refund


@saga(key="{order_id}", errors=[OutOfStock, GatewayTimeout])
def checkout(run: Run, order_id: str, cents: int) -> str:
    run.step(reserve.si(order_id), undo=release)
    run.step(charge.si(run.idempotency_key("charge"), cents), undo=refund)
    return run.step(ship.si(order_id))
