"""A nightly report as a Celery canvas, started as before and as a durable run."""

from celery import Celery, chord

from celery_saga import CelerySaga, RunFailed, step

app = Celery("nightly")
app.set_default()
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app)


@app.task
def figures(shop):
    return f"{shop} {len(shop)}"


@app.task
def publish(lines):
    return f"report of {', '.join(lines)}"


@app.task
def take_back(report):
    print(f"took back: {report}")


@app.task
def mail(report, to="everybody"):
    if to == "nobody":
        raise ConnectionError("the mail server says no")
    return f"{report} is out"


def nightly(shops, **mailed):
    """The canvas: with step(), a task says how it is undone."""
    return chord([figures.s(shop) for shop in shops], step(publish.s(), undo=take_back)) | mail.s(**mailed)


if __name__ == "__main__":
    app.saga.migrate()
    print("as before:", nightly(["north", "south"]).delay().get())

    answer = app.saga.durable(nightly(["north", "south"]), key="2026-03-01").delay()
    print("durable:  ", answer.get())
    print(f"{answer.status}, in {sum(row.kind == 'step' for row in answer.steps())} steps")

    try:
        app.saga.durable(nightly(["north", "east"], to="nobody")).delay().get()
    except RunFailed as error:
        print("refused:  ", error.cause)
