"""The admin in a real browser: pages, forms, the keyboard, the dark; run by test_admin_browser.py.

With `ADMIN_PICTURES` naming a folder, the pictures of docs/django-admin.md are taken into it.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bazaar import scenes, tasks
from django.contrib.auth.models import User
from proj import celery_app
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from tests.browser import Window, started

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/celery_saga/run/"
PICTURES = os.environ.get("ADMIN_PICTURES")
WIDTH = 1360


class Person(Window):
    """Somebody before the admin."""

    def log_in(self, name: str, password: str) -> None:
        self.open("/admin/login/?next=/admin/")
        self.write("username", name)
        self.write("password", password)
        self.press("Log in")
        self.sees("Site administration")

    def follow(self, text: str) -> None:
        with self.going():
            self.driver.find_element(By.PARTIAL_LINK_TEXT, text).click()

    def press(self, value: str) -> None:
        with self.going():
            self.driver.find_element(By.CSS_SELECTOR, f"input[type=submit][value='{value}']").click()

    def sees(self, text: str) -> None:
        assert text in self.text, f"{text!r} in {self.text[:2000]}"

    def overflows(self) -> bool:
        """The page is wider than the window."""
        return bool(self.driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth"))

    def dark(self, is_dark: bool) -> None:
        told = {"features": [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", told)

    def colour(self, selector: str, name: str) -> str:
        return self.driver.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)

    def focused(self) -> Any:
        return self.driver.switch_to.active_element

    def picture(self, name: str, height: int | None = None) -> None:
        """A picture for the docs, where those are asked for."""
        if PICTURES is None:
            return
        still = "document.head.insertAdjacentHTML('beforeend', '<style>*{transition:none!important}</style>')"
        self.driver.execute_script(still)
        bottom = "return document.querySelector('#content').getBoundingClientRect().bottom + window.scrollY"
        whole = height or int(self.driver.execute_script(bottom)) + 10
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": whole, "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        (Path(PICTURES) / f"{name}.png").write_bytes(b64decode(taken["data"]))


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all tests."""
    driver = started(tmp_path_factory.mktemp("profile"), WIDTH)
    yield driver
    driver.quit()


@pytest.fixture
def ann(driver: Chrome, live_server: Any) -> Person:
    """Who may everything, logged in."""
    tasks.trouble.clear()
    User.objects.create_superuser("ann", password="secret")
    person = Person(live_server.url, driver)
    driver.delete_all_cookies()
    person.dark(False)
    person.log_in("ann", "secret")
    return person


def test_from_the_index_to_a_run_that_is_mended(ann: Person) -> None:
    runs = scenes.play(0.1 if PICTURES else 0.0, many=8 if PICTURES else 1)
    ann.open("/admin/")
    assert "Compensation desk (2)" in ann.text

    ann.follow("Runs")
    ann.sees("B-2006")
    assert not ann.overflows()
    ann.picture("admin-list", 900)

    ann.follow("B-2004")
    ann.sees("an undo is used up")
    assert ann.driver.find_elements(By.CSS_SELECTOR, "svg.saga-gantt .saga-b-undo_failed")
    assert not ann.overflows()
    ann.picture("admin-run", 1130)
    ann.dark(True)
    ann.picture("admin-run-dark", 1130)
    ann.dark(False)

    ann.follow("Compensation desk")
    ann.sees("2 runs need a person")
    assert not ann.overflows()
    ann.picture("admin-desk")

    ann.follow("Retry the undo")
    ann.sees("Arguments now")
    ann.write("args", '[{"charge": "ch_1", "cents": 1}, "spare"]')
    ann.write("reason", "the main account is closed")
    ann.press("Yes: retry the undo")
    ann.sees("The undo of charge_card is tried again.")
    ann.sees("1 run needs a person")
    assert celery_app.saga.get(runs["stuck"]).status == "failed"


def test_a_start_by_its_form(ann: Person) -> None:
    ann.open(LIST)
    ann.follow("START A RUN")
    ann.follow("checkout")
    ann.sees("order.cents")
    ann.write("order.id", "C-7")
    ann.write("order.cents", "0")
    ann.write("order.address", "Long Lane 5")
    ann.press("Start checkout")
    ann.sees("greater than or equal to 1")
    ann.picture("admin-start")

    ann.write("order.cents", "250000")
    ann.press("Start checkout")
    ann.sees("A run of checkout was started.")
    ann.sees("waiting")

    ann.follow("Send a signal")
    ann.sees("limit")
    ann.driver.find_element(By.NAME, "value.approved").click()
    ann.write("value.limit", "300000")
    ann.picture("admin-signal")
    ann.press("Send approval")
    ann.sees("The signal approval was sent.")
    ann.sees("completed")


def test_picked_runs_are_cancelled_after_a_look(ann: Person) -> None:
    run_id = scenes.asked()
    ann.open(LIST)
    ann.driver.find_element(By.CSS_SELECTOR, "input.action-select").click()
    ann.driver.find_element(By.CSS_SELECTOR, "select[name=action] option[value=cancel_runs]").click()
    with ann.going():
        ann.driver.find_element(By.CSS_SELECTOR, "button[name=index]").click()
    ann.sees("nothing is changed yet")
    assert celery_app.saga.get(run_id).status == "waiting"

    ann.write("reason", "sold out")
    ann.press("Yes: cancel 1 run")
    ann.sees("Cancel: done for 1 of 1 runs.")
    assert celery_app.saga.get(run_id).status == "cancelled"


def test_everything_is_done_by_the_keyboard_alone(ann: Person) -> None:
    run_id = scenes.asked()
    ann.open(f"{LIST}{run_id}/change/")
    for _ in range(80):
        if ann.focused().text == "Cancel":
            break
        ann.focused().send_keys(Keys.TAB)
    assert ann.focused().text == "Cancel"
    assert ann.colour("a.saga-act:focus", "outline-style") == "solid"

    with ann.going():
        ann.focused().send_keys(Keys.ENTER)
    ann.sees("The run goes no further")
    with ann.going():
        ann.driver.find_element(By.NAME, "reason").send_keys("sold out", Keys.TAB, Keys.ENTER)
    ann.sees("The run is cancelled")

    assert celery_app.saga.get(run_id).status == "cancelled"


def test_the_dark_has_colours_of_its_own_that_can_be_read(ann: Person) -> None:
    ann.open(f"{LIST}{scenes.stuck()}/change/")
    seen = {}
    for is_dark in (False, True):
        ann.dark(is_dark)
        text, ground = ann.colour(".saga-badge", "color"), ann.colour(".saga-badge", "background-color")
        assert _contrast(text, ground) > 4.5, (text, ground)
        label, page = ann.colour(".saga-gantt .saga-label", "fill"), ann.colour("body", "background-color")
        assert _contrast(label, page) > 4.5, (label, page)
        seen[is_dark] = (text, ground, label)

    assert len(set(seen[True]) & set(seen[False])) == 0


def _contrast(one: str, other: str) -> float:
    """As WCAG 2.1 defines the contrast ratio."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
