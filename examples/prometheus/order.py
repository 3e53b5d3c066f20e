"""Order twice: the second order is undone, because there is nothing to charge."""

from shop import checkout

for order, cents in (("o1", 500), ("o2", 0)):
    run = checkout.start(order, cents)
    try:
        run.wait(60)
    except Exception as error:  # noqa: BLE001  # whichever it failed with
        print(f"{order}: {error}")
    print(f"{order}: {run.status}")
