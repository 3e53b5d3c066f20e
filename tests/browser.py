"""Chromium for tests that look at pages as a person does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from celery_saga.testing.servers.process import in_ci

WIDTH = 1280
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
_TEXT = "return document.body === null ? '' : document.body.innerText"
_MARK = "window.isLeft = true"
_GONE = "return window.isLeft === undefined && document.readyState === 'complete'"


def chromium() -> dict[str, str]:
    """Where Chromium and its driver are; else the test is skipped, or fails where CI is set."""
    found = {
        "CHROMIUM": shutil.which("chromium") or shutil.which("chromium-browser"),
        "CHROMEDRIVER": shutil.which("chromedriver"),
    }
    missing = [name.lower() for name, path in found.items() if path is None]
    if missing:
        told = f"no {' and no '.join(missing)} here (Debian: apt-get install chromium chromium-driver)"
        if in_ci():
            pytest.fail(f"{told}. CI is set, so a missing browser is a failure", pytrace=False)
        pytest.skip(told)
    return {name: str(path) for name, path in found.items()}


def started(profile: Path, width: int = WIDTH) -> Chrome:
    """A browser without a screen, in a folder of its own; or the test is skipped, as `chromium` says."""
    paths = chromium()
    options = ChromeOptions()
    options.binary_location = paths["CHROMIUM"]
    for flag in (*_FLAGS, f"--window-size={width},900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return Chrome(options=options, service=Service(paths["CHROMEDRIVER"]))


class Window:
    """One window on one site.

    Args:
        site: where paths begin.
        driver: the browser, as `started` gives it.
    """

    def __init__(self, site: str, driver: Chrome) -> None:
        self.site, self.driver = site, driver

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()

    def open(self, path: str) -> None:
        """Go to a path of the site, or to a whole address."""
        address = path if path.startswith("http") else self.site + path

        def went() -> bool:
            self.driver.get(address)
            return True

        self.until(went, lambda: f"no way to {address}")

    def write(self, name: str, text: str) -> None:
        """Fill a field in."""
        field = self.driver.find_element(By.NAME, name)
        field.clear()
        field.send_keys(text)

    def choose(self, name: str, text: str) -> None:
        """Choose from a list by what is shown."""
        shown = f"//select[@name='{name}']/option[normalize-space()='{text}']"
        self.driver.find_element(By.XPATH, shown).click()

    def press(self, selector: str) -> None:
        """Click what a CSS selector finds first."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def follow(self, text: str) -> None:
        """Click a link."""
        self.driver.find_element(By.PARTIAL_LINK_TEXT, text).click()

    @property
    def text(self) -> str:
        """What the page says, cells of a row one space apart; nothing while it is still empty."""
        return re.sub(r"[\t ]+", " ", str(self.driver.execute_script(_TEXT)))

    def wait_for(self, text: str, timeout_s: float = 30.0) -> None:
        """Until the page says it; pages that load themselves anew meanwhile are read again."""
        seen: list[str] = []

        def says() -> bool:
            seen[:] = [self.text]
            return text in seen[0]

        self.until(says, lambda: f"{text!r} in {seen}", timeout_s)

    @contextmanager
    def going(self) -> Iterator[None]:
        """What is done in the block leads to another page, which is there whole afterwards."""
        self.driver.execute_script(_MARK)
        yield
        self.until(lambda: bool(self.driver.execute_script(_GONE)), lambda: f"another page than {self.text}")

    def until(self, holds: Callable[[], bool], told: Callable[[], str], timeout_s: float = 30.0) -> None:
        """Ask until it holds; what is asked of a page that goes away just then is asked again."""
        # No reference to an element is held between two commands: a driver that is asked about one
        # of a page that has gone may answer with any error ("Node ... does not belong to the document").
        wait: Any = WebDriverWait(self.driver, timeout_s, ignored_exceptions=[WebDriverException])
        try:
            wait.until(lambda _: holds())
        except TimeoutException:
            raise AssertionError(told()) from None

    def take(self, path: Path, height: int) -> None:
        """A picture of the page's top."""
        self.driver.set_window_size(WIDTH, height)
        self.driver.save_screenshot(str(path))
