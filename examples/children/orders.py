"""Orders whose parcels are runs of their own: they complete, fail and are cancelled with their order."""

from celery import Celery

from celery_saga import CelerySaga, Run, saga, step

app = Celery("orders")
app.set_default()
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app)

books = []


class CardRefused(Exception):
    """The bank said no."""


@app.task
def pack(item):
    books.append(f"packed {item}")
    return f"box of {item}"


@app.task
def unpack(box):
    books.append(f"unpacked {box}")


@app.task
def charge(number, cents):
    if number == "o2":
        raise CardRefused("the card was refused")
    books.append(f"charged {cents}")


@app.task
def mail(number):
    books.append(f"mailed {number}")


@saga
def parcel(run: Run, item: str, collect: bool) -> str:
    box = run.step(step(pack.si(item), undo=unpack))
    if collect:
        run.wait_signal("collected")
    return box


@saga(key="news-{number}")
def newsletter(run: Run, number: str) -> None:
    run.step(mail.si(number))


@saga(key="{number}", errors=[CardRefused])
def order(run: Run, number: str, items: list[str], collect: bool = False) -> list[str]:
    boxes = run.group([parcel.s(item, collect) for item in items])
    run.child(newsletter.options(detached=True), number)
    run.step(charge.si(number, 500 * len(items)))
    return boxes


def tell(handle):
    """What became of the order, and what was done."""
    run = handle.refresh()
    told = run.result if run.status == "completed" else run.error
    print(f"{run.key}: {run.status}" + ("" if told is None or run.status == "cancelled" else f", {told}"))
    print(" ", ", ".join(books))
    books.clear()


if __name__ == "__main__":
    app.saga.migrate()
    tell(order.start("o1", ["tea", "mugs"]))
    tell(order.start("o2", ["tea", "mugs"]))

    waiting = order.start("o3", ["books"], collect=True)
    waiting.cancel()
    tell(waiting)
