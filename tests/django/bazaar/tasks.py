"""What the bazaar does; `trouble` says what goes wrong, and `pace` how long things take."""

import time

from celery import shared_task

pace = {"s": 0.0}
trouble: dict[str, int] = {}
"""Name of a task to how many more of its calls fail."""


class PaymentDeclined(Exception):
    pass


class OutOfStock(Exception):
    pass


class GatewayTimeout(Exception):
    pass


def _work(name: str, weight: float = 1.0, error: type[Exception] = ConnectionError, says: str = "") -> None:
    time.sleep(pace["s"] * weight)
    if trouble.get(name, 0) > 0:
        trouble[name] -= 1
        raise error(says or f"no route to the service of {name}")


@shared_task
def reserve_stock(order):
    _work("reserve_stock", 0.8)
    return f"hold-{order}"


@shared_task
def release_stock(hold):
    _work("release_stock", 0.5)


@shared_task
def charge_card(key, cents):
    _work("charge_card", 1.5, GatewayTimeout, "the gateway of the bank did not answer within 3 s")
    return {"charge": f"ch_{key[:8]}", "cents": cents}


@shared_task
def refund_card(charge, account="main"):
    _work("refund_card", 1.2, says="the bank refuses: account is closed")
    return f"refunded to {account}"


@shared_task
def book_courier(order, address):
    _work("book_courier", 1.0, OutOfStock, "no courier drives to this address")
    return f"cx-{order}"


@shared_task
def cancel_courier(courier):
    _work("cancel_courier", 0.4)


@shared_task
def send_receipt(order):
    _work("send_receipt", 0.3)


@shared_task
def print_label(number):
    _work("print_label", 0.2)
    return f"label-{number}"
