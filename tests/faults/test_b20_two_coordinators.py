"""One run advanced by ten processes at the same moment, on every database and isolation level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import make_url, text

from celery_saga.core.ports import Claimed
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.team import ProcessTeam, Task
from tests.faults import races
from tests.faults.asking import libpq
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

RACERS, ROUNDS = 10, 5


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessTeam]:
    team = ProcessTeam(RACERS)
    yield team
    team.close()


def _with_default(url: str, level: str) -> str:
    """The same database, in which sessions get this isolation level unless they choose another."""
    with closing(psycopg2.connect(libpq(url))) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(f"ALTER DATABASE \"{make_url(url).database}\" SET default_transaction_isolation = '{level}'")
    with closing(psycopg2.connect(libpq(url))) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == (level,)
    return url


@pytest.fixture(params=["sqlite", "read committed", "repeatable read", "serializable", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/saga.db"
    elif request.param == "mariadb":
        with fresh_mariadb_database() as url:
            yield url
    else:
        with fresh_postgresql_database() as url:
            yield _with_default(url, request.param)


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = open_store(url)
    migrate(store)
    if store.dialect in {"mysql", "mariadb"}:
        level = store.sessions.read("level", lambda tx: tx.run("level", text("SELECT @@global.tx_isolation")).scalar())
        assert level == "REPEATABLE-READ"  # what a session gets that does not choose
    yield store
    store.close()


class Race:
    """A run of its own, and the processes that work on it."""

    def __init__(self, processes: ProcessTeam, store: SqlStore, url: str) -> None:
        self._team = processes.on(partial(races.opened, url))
        self.store = store
        (self.run_id,) = self._team.race([(races.start, ())])

    def of(self, *tasks: Task) -> list[Any]:
        """These at once, with as many coordinators that there are ten in all; the answers of all."""
        coordinators: list[Task] = [(races.coordinate, (self.run_id,))] * (RACERS - len(tasks))
        return self._team.race([*tasks, *coordinators])

    def task(self, function: Callable[..., Any], *arguments: object) -> Task:
        return function, (self.run_id, *arguments)

    def claim(self, key: str) -> Claimed:
        """The one claim among ten at once."""
        claimed: Claimed
        (claimed,) = [won for won in self._team.race([self.task(races.claim, key)] * RACERS) if won is not None]
        return claimed

    @property
    def version(self) -> int:
        loaded = self.store.load(self.run_id)
        assert loaded is not None
        return loaded.snapshot.run.state_version

    @property
    def keys(self) -> list[str]:
        return [step.key for step in self.store.steps(self.run_id)]


@pytest.mark.timeout(180)
def test_b20_of_ten_coordinators_one_wins_each_transition_and_sends_each_order_once(
    processes: ProcessTeam, store: SqlStore, url: str
) -> None:
    for _ in range(ROUNDS):
        race = Race(processes, store, url)
        before = race.version
        sent = list(chain(*race.of()))
        assert (sent, race.keys, race.version - before) == (["a"], ["a"], 1)

        # Checked in with what is decided next; or, where a coordinator has moved the run, without it.
        claimed = race.claim("a")
        before = race.version
        sent = list(chain(*race.of((races.check_in, (claimed,))), *race.of()))
        assert set(sent) <= {"run"}
        assert race.keys == ["a", "go"]
        assert race.version - before in {1, 2}

        signals = [race.task(races.signal, f"word {n}", "one id") for n in range(RACERS // 2)]
        answers = race.of(*signals)
        told = Counter(answer for answer, _ in answers[: len(signals)])
        sent = list(chain(*(messages for _, messages in answers[: len(signals)]), *answers[len(signals) :], *race.of()))
        assert told == {"delivered": 1, "SIGNAL_DUPLICATE": len(signals) - 1}
        assert [key for key in sent if key != "run"] == ["b"]
        assert race.keys == ["a", "go", "b"]
        assert [row.seq for row in store.history(race.run_id)] == [1, 2]
        assert [taken.taken_by for taken in store.signals(race.run_id)] == ["go"]
