from celery import shared_task

from shop import outside


class OutOfStock(Exception):
    pass


@shared_task
def reserve(order_id):
    outside.note("reserve", order_id)
    return f"shelf-{order_id}"


@shared_task
def release(shelf):
    outside.note("release", shelf)


@shared_task(throws=(OutOfStock,))
def ship(order_id):
    outside.note("ship", order_id)
    if order_id.startswith("rare"):
        raise OutOfStock(order_id)
    return f"parcel-{order_id}"
