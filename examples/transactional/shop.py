"""A shop whose tables and sagas are in one database: tables, tasks and saga. What the worker runs."""

import os

from celery import Celery
from celery_saga import CelerySaga, Retry, Run, current_step, saga
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, create_engine, insert, select, update

DATABASE_URL = os.environ.get("SHOP_DATABASE_URL", "postgresql+psycopg2://postgres@127.0.0.1/shop")

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
app.conf.broker_connection_retry_on_startup = True
app.set_default()
CelerySaga(app, database_url=DATABASE_URL)

engine = create_engine(DATABASE_URL)
metadata = MetaData()
orders = Table(
    "orders", metadata, Column("id", String(50), primary_key=True), Column("state", String(20), nullable=False)
)
stock = Table("stock", metadata, Column("sku", String(50), primary_key=True), Column("left", Integer, nullable=False))
ledger = Table(
    "ledger",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("order_id", ForeignKey(orders.c.id)),
    Column("cents", Integer, nullable=False),
)


@app.task
def take(sku):
    """Take one piece off the shelf."""
    connection = current_step.connection
    left = connection.scalar(select(stock.c.left).where(stock.c.sku == sku).with_for_update())
    if not left:
        raise LookupError(f"there is no {sku} left")
    connection.execute(update(stock).where(stock.c.sku == sku).values(left=left - 1))
    return sku


@app.task
def put_back(sku):
    """The undo of `take`: in a transaction with its own checkpoint, as the step was."""
    connection = current_step.connection
    connection.execute(update(stock).where(stock.c.sku == sku).values(left=stock.c.left + 1))


@app.task
def book(order_id, cents):
    """Write the sale down. The first process to do so is killed before its transaction has committed."""
    current_step.connection.execute(insert(ledger).values(order_id=order_id, cents=cents))
    if order_id == "unlucky" and current_step.attempt == 1:
        os.abort()


@app.task
def mark(order_id, state):
    """Tell in the order how far it is."""
    current_step.connection.execute(update(orders).where(orders.c.id == order_id).values(state=state))


@saga(key="{order_id}", errors=[LookupError])
def sell(run: Run, order_id: str, skus: list[str], cents: int) -> str:
    """Take each piece and write the sale down; every step is in one transaction with its checkpoint."""
    run.step(mark.si(order_id, "accepted"), undo=mark.si(order_id, "failed"), transactional=True)
    for sku in skus:
        run.step(take.si(sku), undo=put_back, transactional=True)
    run.step(book.si(order_id, cents), transactional=True, retry=Retry(3))
    run.step(mark.si(order_id, "sold"), name="sold", transactional=True)
    return "sold"
