"""The admin in Chromium, as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import chromium
from tests.django.project import database, run_suite
from tests.django.test_admin import SETTINGS


@pytest.mark.servers
def test_the_admin_in_a_browser(tmp_path: Path) -> None:
    chromium()
    with database("psycopg", tmp_path) as given:
        run_suite("suite_admin_browser.py", given, **SETTINGS)
