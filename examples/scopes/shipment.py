"""A shop that ships an order by courier or lets it be picked up, and cannot go back once the invoice is out."""

from celery import Celery

from celery_saga import CelerySaga, Run, RunFailed, saga

app = Celery("shipment")
app.set_default()
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app)


class NoCourier(Exception):
    """Nobody comes that far."""


class OutOfStock(Exception):
    """There is nothing left."""


down = ["mail server", "mail server"]


@app.task(throws=(OutOfStock,))
def reserve(order):
    if order == "unicorn":
        raise OutOfStock(order)
    print(f"  reserve {order}")


@app.task
def release(order):
    print(f"  release {order}")


@app.task
def pack(order):
    print(f"  pack {order}")
    return f"parcel with {order}"


@app.task
def unpack(parcel):
    print(f"  unpack {parcel}")


@app.task(throws=(NoCourier,))
def book_courier(order, place):
    if place == "island":
        raise NoCourier(place)
    print(f"  courier to the {place} with {order}")


@app.task
def open_counter(order):
    print(f"  counter open for {order}")


@app.task
def send_invoice(order):
    if down:
        raise ConnectionError(f"{down.pop()} is down")
    print(f"  invoice for {order}")


@saga(errors=[NoCourier, OutOfStock])
def fulfil(run: Run, order: str, place: str) -> str:
    """A scope for the shipment, and a pivot before the invoice."""
    run.step(reserve.si(order), undo=release.si(order))
    try:
        with run.scope("shipment"):
            run.step(pack.si(order), undo=unpack)
            run.step(book_courier.si(order, place))
        way = "by courier"
    except NoCourier:
        run.step(open_counter.si(order))
        way = "to be picked up"
    run.pivot()
    run.step(send_invoice.si(order))
    return way


if __name__ == "__main__":
    app.saga.migrate()
    for order, place in (("pen", "town"), ("book", "island"), ("unicorn", "town")):
        print(f"{order} to the {place}:")
        run = fulfil.start(order, place)
        try:
            way = run.wait(10)
            failures = [row.step for row in run.history() if row.action == "fail"]
            print(f"  {way}; failed on the way: {', '.join(failures) or 'nothing'}")
        except RunFailed as error:
            print(f"  failed: {type(error.cause).__name__}")
