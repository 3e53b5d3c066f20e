"""The table of codes is complete, documented, tested, and survives a check that fails."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from pathlib import Path

import pytest

from celery_saga.runtime.guard import CODES, Finding, Level, gather, inspect
from celery_saga.runtime.guard.document import page
from celery_saga.runtime.guard.finding import Code
from celery_saga.runtime.guard.table import CHECKS, TOPICS
from tests.guard.world import add_task, findings, make_app

ROOT = Path(__file__).parents[2]


def test_the_page_of_codes_is_what_the_code_says() -> None:
    assert (ROOT / "docs" / "checks.md").read_text() == page()


def test_the_page_has_one_heading_for_each_code() -> None:
    assert re.findall(r"^### (\w+)$", page(), re.MULTILINE) == list(CODES)


def test_no_place_on_the_page_is_left_unfinished() -> None:
    assert not re.search(r"\{\{|\}\}|\{\w+:", page())


def test_each_code_of_a_topic_is_in_its_list_and_in_no_other() -> None:
    defined = [value.name for _, topic in TOPICS for value in vars(topic).values() if isinstance(value, Code)]
    assert sorted([*defined, "CHECK_FAILED"]) == sorted(CODES)


def test_each_check_is_listed_once() -> None:
    assert len(set(CHECKS)) == len(CHECKS)


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_is_upper_case_and_says_what_is_and_what_to_do(code: str) -> None:
    level, sentence, remedy = CODES[code]

    assert re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", code)
    assert level in Level
    assert sentence.rstrip(")").endswith(".")
    assert remedy.endswith(".")


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_is_named_by_a_test(code: str) -> None:
    # Where no test has it, its sentence could not even be filled in.
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    assert any(f'"{code}"' in text for text in texts)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_remedy_needs_no_more_values_than_its_sentence_or_few(code: str) -> None:
    _, sentence, remedy = CODES[code]
    in_sentence, in_remedy = (
        {name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (sentence, remedy)
    )
    assert in_remedy <= in_sentence


@pytest.mark.parametrize("version", ["5.4.0", "5.7.0", "5.7.0rc1"])
def test_celery_versions_that_were_tried_are_fine(version: str) -> None:
    app = make_app()
    facts = replace(gather(app), celery_version=version)

    assert "CELERY_VERSION" not in {finding.code for finding in inspect(app, facts)}


@pytest.mark.parametrize("version", ["5.3.6", "4.4.7", "6.0.0", "6.0.0b1", "unknown"])
def test_other_celery_versions_are_an_error(version: str) -> None:
    app = make_app()
    facts = replace(gather(app), celery_version=version)

    assert "CELERY_VERSION" in {finding.code for finding in inspect(app, facts)}


def test_findings_come_errors_first() -> None:
    app = make_app(task_protocol=1, task_acks_late=True, task_reject_on_worker_lost=True)
    add_task(app, "shop.charge")

    levels = [finding.level for finding in inspect(app, gather(app))]

    assert levels == sorted(levels, key=[Level.ERROR, Level.WARNING, Level.INFO].index)
    assert {Level.ERROR, Level.WARNING, Level.INFO} == set(levels)


def test_a_check_that_fails_on_an_odd_setting_is_a_finding_and_hides_no_other() -> None:
    app = make_app(worker_prefetch_multiplier="many", task_protocol=1)

    found = findings(app)

    assert "pools.prefetch" in found["CHECK_FAILED"].sentence
    assert "TASK_PROTOCOL_1" in found
    assert "CHECK_FAILED" not in findings(make_app())


def test_a_finding_is_frozen() -> None:
    finding = Finding("CODE", Level.INFO, "It is so.", "Do nothing.")

    with pytest.raises(AttributeError):
        finding.code = "OTHER"  # type: ignore[misc]


def test_a_well_kept_deployment_has_no_findings(rabbitmq_url: str, postgresql_url: str) -> None:
    app = make_app(
        rabbitmq_url,
        broker_transport_options={"confirm_publish": True},
        saga_database_url=postgresql_url,
        worker_prefetch_multiplier=1,
    )
    add_task(app, "shop.charge", time_limit=60, soft_time_limit=50)

    from kombu import Connection, Queue

    with Connection(rabbitmq_url) as connection, connection.Consumer([Queue("celery")], callbacks=[print]):
        found = findings(app, concurrency=2, schema_state=lambda: "current")

    assert found == {}
