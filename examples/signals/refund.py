"""A refund that two of three people approve by links, and of which the accounts learn as soon as two have."""

from celery import Celery

from celery_saga import CelerySaga, Run, SignalTimeout, saga

app = Celery("refund")
app.set_default()
app.conf.update(
    task_always_eager=True,
    saga_database_url="sqlite://",
    saga_secret_keys=["change me: a long random text"],
)
CelerySaga(app)

PEOPLE = ["ann", "bob", "cid"]
mailbox = {}


@app.task
def mail(who, link):
    print(f"  mail to {who}")
    mailbox[who] = link.rpartition("=")[2]


@app.task
def pay_back(order, approved_by):
    print(f"  paid back {order}, approved by {' and '.join(approved_by)}")


@app.task
def tell_accounts(answers, order):
    print(f"  accounts: ann said {answers[0]}, bob said {answers[1]} to {order}")


@saga(errors=[SignalTimeout])
def refund(run: Run, order: str) -> list[str]:
    """Asks all, needs two."""
    for who in PEOPLE:
        token = run.token(who, expires=3 * 86400)
        run.step(mail.si(who, f"https://shop.example/refunds?answer={token}"))
    answers = run.wait_signals(PEOPLE, mode=2, timeout=3 * 86400)
    run.step(pay_back.si(order, list(answers)))
    return list(answers)


if __name__ == "__main__":
    app.saga.migrate()
    print("refund of a pen:")
    run = refund.start("pen")
    app.saga.chord(run.id, ["ann", "bob"])(tell_accounts.s("pen"))
    for who in ("bob", "ann", "cid", "bob"):
        try:
            app.saga.redeem(mailbox[who], "yes")
        except Exception as error:
            print(f"  {who}: {type(error).__name__}")
    print(f"  {run.wait(10)}")
