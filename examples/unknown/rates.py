"""A shop that books a parcel with a carrier whose answer cannot be kept: nobody knows what came of it."""

from celery import Celery

from celery_saga import CelerySaga, Run, StepFailed, saga

app = Celery("rates")
app.set_default()
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app)


@app.task
def book(carrier, order):
    print(f"  {carrier} takes {order}")
    # The carrier has the parcel; that its price is not a number keeps the answer from being stored.
    return float("nan") if carrier == "Blink" else 4.20


@app.task
def call_off(carrier, order):
    print(f"  {carrier} is told to leave {order}")


@app.task
def refund(price):
    print(f"  {price} back")


@saga
def ship(run: Run, order: str) -> str:
    """The undo needs no result: the booking is called off before the body hears of the trouble."""
    for carrier in ("Blink", "Slowpost"):
        try:
            run.step(book.si(carrier, order), undo=call_off.si(carrier, order))
        except StepFailed:
            continue
        return f"by {carrier}"
    return "not at all"


@saga
def ship_prepaid(run: Run, order: str) -> None:
    """The undo needs the price, which nobody knows: a person has to look."""
    run.step(book.si("Blink", order), undo=refund)


if __name__ == "__main__":
    app.saga.migrate()
    print("an undo without the result:")
    print(f"  shipped {ship.start('pen').wait(10)}")
    print("an undo that needs the result:")
    run = ship_prepaid.start("book")
    print(f"  {run.status}, because {run.refresh().waiting_on[0].name}")
    run.retry_undo("book", args=[4.20], by="Ada", reason="the carrier says 4.20")
    print(f"  {run.refresh().status}")
