"""The shop of `examples/django_shop`, started by its one command and used in a browser.

With `SHOP_PICTURES` naming a folder, the pictures of the docs are taken into it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Window, started
from tests.docs.blocks import ROOT
from tests.workers import wait_until

HOME = ROOT / "examples" / "django_shop"
PICTURES = os.environ.get("SHOP_PICTURES")
GOOD, DECLINED = "4000 0000 0000 0001", "4000 0000 0000 0002"


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@dataclass
class Shop:
    """A shop that runs, and somebody in front of it."""

    window: Window
    flower: str
    log: Path

    def order(self, product: str, card: str = GOOD) -> str:
        """Order one piece; the order's number."""
        self.window.open("/")
        self.window.choose("product", product)
        self.window.write("email", "ann@example.org")
        self.window.write("card", card)
        with self.window.going():
            self.window.press("button")
        found = re.search(r"/orders/(\d+)/", self.window.driver.current_url)
        assert found is not None
        return found[1]

    def shelf(self) -> dict[str, int]:
        """What the shop window says is left of each product."""
        self.window.open("/")
        rows = re.findall(r"^(.+) [\d.]+ € (\d+)$", self.window.text, re.MULTILINE)
        return {name: int(left) for name, left in rows}

    def tasks(self) -> dict[str, dict[str, Any]]:
        """What Flower shows."""
        with urllib.request.urlopen(f"{self.flower}/api/tasks", timeout=10) as answer:
            return dict(json.load(answer))

    def picture(self, name: str, height: int = 700) -> None:
        if PICTURES is not None:
            self.window.take(Path(PICTURES) / f"shop-{name}.png", height)


@pytest.fixture
def shop(postgresql_url: str, rabbitmq_url: str, tmp_path: Path) -> Iterator[Shop]:
    web, flower = _free_ports(2)
    environment = {
        **os.environ,
        "SHOP_DATABASE_URL": postgresql_url,
        "SHOP_BROKER_URL": rabbitmq_url,
        "SHOP_WEB": f"127.0.0.1:{web}",
        "SHOP_FLOWER_PORT": str(flower),
        "FLOWER_UNAUTHENTICATED_API": "true",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "default",
    }
    log = tmp_path / "shop.log"
    with log.open("w") as told:
        running = subprocess.Popen(
            [sys.executable, "start.py"], cwd=HOME, env=environment, stdout=told, stderr=told, start_new_session=True
        )
    try:
        wait_until(lambda: running.poll() is not None or " ready." in log.read_text(), 90, "a worker that is ready")
        assert running.poll() is None, log.read_text()
        window = Window(f"http://127.0.0.1:{web}", started(tmp_path / "profile"))
        try:
            yield Shop(window, f"http://127.0.0.1:{flower}", log)
        finally:
            window.close()
        running.send_signal(signal.SIGINT)
        running.wait(30)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.servers
@pytest.mark.timeout(300)
def test_the_shop(shop: Shop) -> None:
    at_first = shop.shelf()
    assert at_first == {"Espresso machine": 5, "Kettle": 12, "Teapot": 3}
    shop.picture("window")

    shop.order("Kettle")
    shop.window.wait_for("shipped, parcel-")

    shop.order("Teapot", DECLINED)
    shop.window.wait_for("undone")
    shop.picture("undone")
    assert shop.shelf() == {**at_first, "Kettle": 11}

    approved = shop.order("Espresso machine")
    shop.window.wait_for("waiting")
    shop.picture("waiting")
    refused = shop.order("Espresso machine")
    shop.window.wait_for("waiting")
    assert shop.shelf()["Espresso machine"] == 3

    shop.window.open("/admin/")
    shop.window.write("username", "admin")
    shop.window.write("password", "admin")
    shop.window.press("[type=submit]")
    shop.window.wait_for("Site administration")
    for number, verb in ((approved, "Approve"), (refused, "Refuse")):
        shop.window.open("/admin/orders/order/")
        shop.window.press(f"input[name=_selected_action][value='{number}']")
        shop.window.choose("action", f"{verb} the selected orders")
        with shop.window.going():
            shop.window.press("button[name=index]")
        shop.window.wait_for(f"Order {number}: {verb.lower()}d")
    shop.picture("approval")
    for number, end in ((approved, "shipped, parcel-"), (refused, "undone")):
        shop.window.open(f"/orders/{number}/")
        shop.window.wait_for(end)
    assert shop.shelf()["Espresso machine"] == 4

    shop.window.open("/admin/celery_saga/run/")
    shop.window.wait_for(f"order-{refused}")
    shop.window.open("/admin/django_celery_beat/periodictask/")
    shop.window.wait_for("restock")

    wait_until(lambda: len(_runs(shop.tasks())) >= 4, 30, "four runs in Flower")
    wait_until(lambda: sorted(_runs(shop.tasks())) == ["FAILURE", "FAILURE", "SUCCESS", "SUCCESS"], 30, "their ends")


def _runs(tasks: dict[str, dict[str, Any]]) -> list[str]:
    return [task["state"] for task in tasks.values() if task["name"] == "saga.checkout"]
