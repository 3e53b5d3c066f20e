"""What Flower holds of many runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.runtime.showing.stream import Stream
from celery_saga.runtime.showing.told import of_run, sent_of_run
from tests.announcing.house import house_with
from tests.flower.board import Board
from tests.servers import fresh_rabbitmq_vhost
from tests.workers import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.heavy]

RUNS, PAGE = 10_000, 100
MOST_BYTES = 100 * 1024 * 1024
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUN = RunRecord("", "order", 1, "", RunStatus.COMPLETED, NOW, NOW, started_at=NOW, ended_at=NOW + timedelta(seconds=1))


def test_ten_thousand_runs_take_little_of_flowers_memory(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sagas.db"
    with fresh_rabbitmq_vhost() as vhost, house_with(url, broker_url=vhost) as house:
        settings = {"broker_url": vhost, "saga_database_url": url}
        environment = {"SHOP_SETTINGS": json.dumps(settings), "SHOP_LOG": str(tmp_path / "log")}
        stream = Stream(house.app, timeout_s=30.0)
        with Board("tests.flower.shop", environment, house.app) as board:
            before = board.rss_bytes()
            last = ""
            for _ in range(RUNS // PAGE):
                told = []
                for _ in range(PAGE):
                    last = str(uuid4())
                    run = replace(RUN, id=last, key="k" * 255)
                    told += [sent_of_run(run, "c@h"), *of_run(run, "w@h", again=False)]
                assert stream.send(told, "w@h")
            wait_until(lambda: board.state(last) == "SUCCESS", timeout_s=100.0, what="the last run")
            grown = board.rss_bytes() - before
            stream.close()

    print(f"{grown / 2**20:.0f} MiB for {RUNS} runs")
    assert grown < MOST_BYTES
