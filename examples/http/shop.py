"""A shop whose refunds a person approves: over HTTP, or by a link in a mail."""

import os

from celery import Celery
from celery_saga import CelerySaga, Run, Signal, saga

DATABASE_URL = os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop")

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(
    app,
    database_url=DATABASE_URL,
    secret_keys=[os.environ.get("SHOP_SECRET", "only for this example")],
)

APPROVAL = Signal("approval", bool)


@app.task
def mail(to: str, link: str) -> None:
    print(f"to {to}: please answer {link}")


@app.task
def pay_back(order: str, cents: int) -> str:
    return f"paid {cents} cents back for {order}"


@saga(key="{order}", signals=[APPROVAL])
def refund(run: Run, order: str, cents: int) -> str:
    token = run.token(APPROVAL)
    run.step(mail.si("boss@shop.example", f"https://shop.example/sagas/tokens/{token}"))
    if not run.wait_signal(APPROVAL):
        return "refused"
    return run.step(pay_back.si(order, cents))
