"""`python order.py tables`, `python order.py ID CENTS SKU...`, `python order.py cancel ID`, `python order.py show`."""

import sys

from celery_saga import RunCancelled, RunFailed
from sqlalchemy import delete, func, insert, select, update

from shop import engine, ledger, metadata, orders, sell, stock


def tables():
    """Make the shop's tables, with three pens and a book on the shelf."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(delete(stock))
        connection.execute(insert(stock), [{"sku": "pen", "left": 3}, {"sku": "book", "left": 1}])


def order(order_id, cents, skus):
    """Insert the order and start its run in one transaction, then wait outside of it."""
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id=order_id, state="new"))
        handle = sell.options(connection=connection).start(order_id, skus, cents)
    try:
        print(handle.wait(60))
    except RunFailed as error:
        print(f"failed: {error.cause}")
    except RunCancelled:
        print("cancelled")


def cancel(order_id):
    """Ask for the cancel and mark the order in one transaction."""
    with engine.begin() as connection:
        answer = sell.options(connection=connection).find(key=order_id).cancel(reason="the customer's wish")
        if answer["cancelled"]:
            connection.execute(update(orders).where(orders.c.id == order_id).values(state="cancelled"))
    print(answer)


def show():
    """Print what is in the tables."""
    with engine.connect() as connection:
        for order_id, state in connection.execute(select(orders).order_by(orders.c.id)):
            rows = connection.scalar(select(func.count()).where(ledger.c.order_id == order_id))
            print(f"{order_id}: {state}, {rows} in the ledger")
        for sku, left in connection.execute(select(stock).order_by(stock.c.sku)):
            print(f"{sku}: {left} left")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tables"]:
            tables()
        case ["show"]:
            show()
        case ["cancel", order_id]:
            cancel(order_id)
        case [order_id, cents, *skus]:
            order(order_id, int(cents), skus)
