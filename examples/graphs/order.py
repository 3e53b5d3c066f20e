"""Starts orders by the graph in order.json: `python order.py ID CENTS SKU...`. Only this program knows the graph."""

import json
import sys
from pathlib import Path

from celery_saga import RunFailed, Saga

import shop  # noqa: F401 - makes the app, and adds celery_saga to it

order = Saga.from_graph(Path(__file__).with_name("order.json").read_text(), key="{input.id}")

if __name__ == "__main__":
    order_id, cents, *skus = sys.argv[1:]
    handle = order.start({"id": order_id, "cents": int(cents), "lines": [{"sku": sku, "count": 1} for sku in skus]})
    if int(cents) > 100_000:
        print(f"order:{order_id} waits for an approval")
    else:
        try:
            print(json.dumps(handle.wait(30)))
        except RunFailed as error:
            print(f"order:{order_id} failed: {error.cause}")
