"""`python order.py NUMBER CARRIER|- ITEM...`: ship an order, which this carrier fetches, or nobody."""

import sys

from celery_saga import RunFailed

from shop import PICKED_UP, ship

number, carrier, *items = sys.argv[1:]
run = ship.start(number, items)
if carrier != "-":
    run.signal(PICKED_UP, f"{carrier} has")  # kept until the run asks for it
try:
    told = run.wait(60)
except RunFailed as error:
    told = f"no {error.cause}"
done = [step.key for step in run.steps() if step.status == "done"]
packed = sum(key.endswith("/pack") for key in done) - sum(key.endswith("/pack!undo") for key in done)
print(f"{told}; {packed} packed")
