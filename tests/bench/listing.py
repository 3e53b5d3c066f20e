"""What lists and purges take among a million runs, and what their indexes cost each run, on PostgreSQL.

Run it with `python -m tests.bench.listing`. The runs are made by SQL: 22 sagas in three versions, with rare values of
each kind among them, created over 400 days. A filter's number is the median of its pages; of a purge it is the median
of its transactions, with starts beside it. `--writes` measures, instead, a run from start to end with these indexes and
with those that lists had before them, in turns.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from statistics import median, quantiles
from typing import Any

from sqlalchemy import text

from celery_saga.core.ports import RunFilter
from celery_saga.core.records import Action
from celery_saga.core.retention import PurgeFilter, Stretch
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import a_run, a_step, new_id
from tests.servers import fresh_postgresql_database

_RUNS = """
INSERT INTO saga_run (id, saga, version, key, status, created_at, updated_at, generation, state_version, input_text,
    input_digest, spec_text, headers_text, result_text, restart, skip_undos, ended_at, wake_at, priority, lane,
    tags_text, failures, stalls, sends, step_seq, history_seq, folded, shields, pivoted)
SELECT gen_random_uuid()::text,
    CASE WHEN n % 20000 = 7 THEN 'saga-rare' WHEN n % 2 = 0 THEN 'saga-big' ELSE 'saga-' || n % 20 END,
    CASE WHEN n % 25000 = 3 THEN 7 ELSE 1 + (n / 400000) END,
    CASE WHEN n % 3 = 0 THEN 'key-' || n END, status, at, at, 1, 3, '{"order":"' || n || '"}', md5(n::text), '{}',
    '{}', '"' || repeat('x', 100) || '"', false, false,
    CASE WHEN status IN ('completed', 'failed', 'cancelled', 'compensation_failed') THEN at + interval '1 hour' END,
    CASE WHEN status = 'waiting' THEN now() + interval '30 days' WHEN status = 'running' AND n % 40 = 1
        THEN now() - interval '1 hour' WHEN status = 'running' THEN now() + interval '1 hour' END,
    0, CASE WHEN n % 50 = 1 THEN 'lane-busy' WHEN n % 10 = 1 THEN 'lane-' || n / 200 END,
    CASE WHEN n % 5000 = 9 THEN '["vip"]' WHEN n % 2 = 1 THEN '["region-' || n % 10 || '"]' ELSE '[]' END,
    0, 0, CASE WHEN status = 'waiting' AND n % 101 = 0 THEN 6 ELSE 0 END, 1, 1, false, 0, false
FROM (
    SELECT n, now() - interval '400 days' * (1 - n / @runs@::float) AS at,
        CASE WHEN n % 10000 = 13 THEN 'suspended' WHEN n % 40000 = 17 THEN 'compensation_failed'
            WHEN n % 25 = 1 THEN 'failed' WHEN n % 100 = 2 THEN 'cancelled' WHEN n % 33 = 3 THEN 'waiting'
            WHEN n % 100 = 4 OR n % 400 = 1 THEN 'running' ELSE 'completed' END AS status
    FROM generate_series(1, @runs@) AS n
) AS made
"""
_STEPS = """
INSERT INTO saga_step (run_id, generation, key, kind, status, created_at, scope, ordinal, born, task, args_digest,
    args_text, spec_text, attempt, failures, stalls, sends, maybe, seq, result_text, join_total, join_left, join_next,
    folded, place, region)
SELECT id, 1, 'charge', 'step', 'done', created_at, '', 0, 1, 'shop.charge', '', '[[], {}]', '{}', 1, 0, 0, 1,
    false, 1, '"' || repeat('y', 50) || '"', 0, 0, 0, false, 1, '' FROM saga_run
"""
_HISTORY = """
INSERT INTO saga_history (run_id, seq, at, action, kind, step, generation)
SELECT id, 1, created_at, 'ok', 'step', 'charge', 1 FROM saga_run
"""
_TAGS = """
INSERT INTO saga_tag (run_id, tag, created_at)
SELECT id, tags_text::json ->> 0, created_at FROM saga_run WHERE tags_text <> '[]'
"""
_BEFORE = """
DROP INDEX saga_run_newest, saga_run_purged, saga_run_saga, saga_run_key, saga_run_lane, saga_run_ended,
    saga_run_parent, saga_run_repeated, saga_step_repeated;
CREATE INDEX saga_run_key ON saga_run (saga, key);
CREATE INDEX saga_run_newest ON saga_run (created_at, id);
CREATE INDEX saga_run_parent ON saga_run (parent_id);
"""
_TIMES = 15


def main() -> None:
    """Measure, and print one line for each filter, for the purge, and for starts beside it."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=1_000_000)
    words.add_argument("--writes", type=int, nargs="?", const=2000, help="Measure writes instead, over so many runs.")
    given = words.parse_args()
    if given.writes:
        _measure_writes(given.writes)
        return
    with fresh_postgresql_database() as url:
        store = open_store(url)
        try:
            migrate(store)
            _fill(store, given.runs)
            _measure_lists(store)
            _measure_purge(store)
        finally:
            store.close()


def _fill(store: SqlStore, runs: int) -> None:
    began_s = time.perf_counter()
    with store.sessions.engine.execution_options(no_parameters=True).begin() as connection:
        # Columns that say nothing here have what a run without anything special has in them.
        for column in (x for table in (store.schema.run, store.schema.step) for x in table.c if not x.nullable):
            kind = str(column.type.compile(connection.dialect)).partition("(")[0].partition(" ")[0]
            empty = {"BOOLEAN": "false", "INTEGER": "0", "BIGINT": "0", "TEXT": "''", "VARCHAR": "''"}.get(kind)
            if empty is not None and not column.primary_key:
                line = f'ALTER TABLE {column.table.name} ALTER COLUMN "{column.name}" SET DEFAULT {empty}'
                connection.exec_driver_sql(line)
        for statement in (_RUNS, _STEPS, _HISTORY, _TAGS):
            connection.exec_driver_sql(statement.replace("@runs@", str(runs)))
    with store.sessions.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    print(f"{runs} runs made in {time.perf_counter() - began_s:.0f} s")


# -- lists ----------------------------------------------------------------------------------------------------------
def _measure_lists(store: SqlStore) -> None:
    now = store.now()
    week = {"since": now - timedelta(days=200), "until": now - timedelta(days=193)}
    filters: dict[str, RunFilter] = {
        "all": RunFilter(),
        "saga, half of all": RunFilter(saga="saga-big"),
        "saga, rare": RunFilter(saga="saga-rare"),
        "saga, unknown": RunFilter(saga="saga-none"),
        "version": RunFilter(version=2),
        "version, rare": RunFilter(version=7),
        "saga + version": RunFilter(saga="saga-big", version=1),
        "status completed": RunFilter(status=("completed",)),
        "status cancelled": RunFilter(status=("cancelled",)),
        "status suspended": RunFilter(status=("suspended",)),
        "saga + status": RunFilter(saga="saga-big", status=("completed",)),
        "saga + rare status": RunFilter(saga="saga-3", status=("suspended",)),
        "saga + version + status": RunFilter(saga="saga-3", version=1, status=("failed",)),
        "key": RunFilter(key="key-600000"),
        "saga + key": RunFilter(saga="saga-big", key="key-600000"),
        "lane": RunFilter(lane="lane-77"),
        "lane, busy": RunFilter(lane="lane-busy"),
        "lane, busy + status": RunFilter(lane="lane-busy", status=("running",)),
        "tag, of a tenth": RunFilter(tag="region-3"),
        "tag, rare": RunFilter(tag="vip"),
        "tag, unknown": RunFilter(tag="none"),
        "tag + saga": RunFilter(tag="region-3", saga="saga-3"),
        "tag + rare saga": RunFilter(tag="region-7", saga="saga-rare"),
        "tag + status": RunFilter(tag="region-1", status=("failed",)),
        "a week": RunFilter(**week),
        "a week + saga": RunFilter(saga="saga-3", **week),
        "a week + tag": RunFilter(tag="region-3", **week),
        "attention": RunFilter(attention=True),
        "attention + saga": RunFilter(attention=True, saga="saga-3"),
        "stuck": RunFilter(late_s=31),
        "stuck + saga": RunFilter(late_s=31, saga="saga-big"),
        "purged": RunFilter(purged=True),
    }
    filters = {name: replace(wanted, limit=101) for name, wanted in filters.items()}
    for name, wanted in filters.items():
        found = store.runs(wanted)
        _tell(name, [_timed(lambda w=wanted: store.runs(w)) for _ in range(_TIMES)], f"{len(found)} runs")
    for name in ("all", "saga, half of all", "status completed", "lane, busy", "tag, of a tenth", "saga + status"):
        deep = _deep(store, filters[name])
        _tell(f"{name}: deep page", [_timed(lambda w=deep: store.runs(w)) for _ in range(_TIMES)])


def _deep(store: SqlStore, wanted: RunFilter) -> RunFilter:
    """The page in the middle of the 400 days."""
    return replace(wanted, after=new_id(), after_at=store.now() - timedelta(days=200))


def _timed(do: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    do()
    return time.perf_counter() - began_s


def _tell(name: str, took_s: list[float], more: str = "") -> None:
    high = quantiles(took_s, n=20)[-1]
    print(f"{name:28} median {median(took_s) * 1e3:7.1f} ms, 95 % {high * 1e3:7.1f} ms   {more}", flush=True)


# -- purge ----------------------------------------------------------------------------------------------------------
def _measure_purge(store: SqlStore) -> None:
    alone: list[float] = []
    _starts(store, alone, threading.Event(), 300)
    _tell("a start, alone", alone)
    wanted = PurgeFilter(store.now() - timedelta(days=300))
    _tell("purge, what stays", [_timed(lambda: store.protected(wanted)) for _ in range(3)])
    stretches = store.purge_stretches(wanted)
    _tell("purge, where to look", [_timed(lambda: store.purge_stretches(wanted)) for _ in range(_TIMES)])
    latest = [_timed(lambda: store.purge_stretches(wanted, keep_latest=1000)) for _ in range(3)]
    _tell("the same, keeping 1000", latest)
    beside: list[float] = []
    over = threading.Event()
    starting = threading.Thread(target=_starts, args=(store, beside, over, 1_000_000))
    starting.start()
    took_s: list[float] = []
    gone = 0
    for stretch in stretches:
        rest: Stretch | None = stretch
        while rest is not None and len(took_s) < 150:
            began_s = time.perf_counter()
            done = store.purge_some(wanted, rest, limit=500)
            took_s.append(time.perf_counter() - began_s)
            gone, rest = gone + done.deleted, done.rest
    over.set()
    starting.join()
    _tell("a batch of a purge", took_s, f"{gone} runs in {len(took_s)} batches, {sum(took_s):.1f} s")
    _tell("a start beside the purge", beside, f"{len(beside)} starts")


def _starts(store: SqlStore, took_s: list[float], over: threading.Event, most: int) -> None:
    """Start runs at 50 a second, and note how long each takes."""
    while not over.is_set() and len(took_s) < most:
        run = a_run(saga="saga-big", created_at=store.now())
        took_s.append(_timed(lambda run=run: store.insert_run(run)))
        over.wait(0.02)


# -- writes ---------------------------------------------------------------------------------------------------------
def _measure_writes(runs: int) -> None:
    with fresh_postgresql_database() as new_url, fresh_postgresql_database() as old_url:
        stores = {"with these indexes": open_store(new_url), "with those before": open_store(old_url)}
        took_s: dict[str, list[float]] = {name: [] for name in stores}
        try:
            for store in stores.values():
                migrate(store)
            with stores["with those before"].sessions.engine.begin() as connection:
                connection.execute(text(_BEFORE))
            for number in range(runs):
                for name, store in stores.items():
                    took_s[name].append(_timed(lambda s=store, n=number: _run_through(s, n)))
        finally:
            for store in stores.values():
                store.close()
    for name, each_s in took_s.items():
        _tell(name, each_s[runs // 10 :])
    ratios = [new / old for new, old in zip(*took_s.values(), strict=True)]
    print(f"ratio: {median(ratios[runs // 10 :]):.3f}")


def _run_through(store: SqlStore, number: int) -> None:
    """A run with a key and two steps, from its start to its end, as a worker writes it."""
    now = store.now()
    run = a_run(id=new_id(), key=f"order-{number}", created_at=now, status=RunStatus.QUEUED, wake_at=now, sends=1)
    store.insert_run(run)
    store.transact(run.id, lambda s, at: s.with_run(status=RunStatus.RUNNING, wake_at=None).with_step(
        a_step(run.id, "one", wake_at=at)))  # fmt: skip
    for key, after in (("one", "two"), ("two", None)):
        claimed = store.claim(run.id, 1, key, token=new_id(), owner="host:1", lease_s=30)
        assert claimed is not None
        store.transact(run.id, lambda s, at, key=key, after=after: _checked_in(s, at, key, after))


def _checked_in(s: Any, at: Any, key: str, after: str | None) -> Any:
    done = replace(s.steps[key], status=StepStatus.DONE, claim_token=None, lease_until=None, wake_at=None, ended_at=at)
    s = s.with_step(done).note(at, Action.OK, "step", step=key)
    if after is not None:
        return s.with_step(a_step(s.run.id, after, wake_at=at))
    return s.with_run(status=RunStatus.COMPLETED, ended_at=at, result_text="1").note(at, Action.END, "run")


if __name__ == "__main__":
    main()
