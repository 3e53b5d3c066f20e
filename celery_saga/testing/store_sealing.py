"""What a store must keep about payloads that go through a codec or to another store, and of those it cannot read."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from celery_saga.core.snapshot import Snapshot
from celery_saga.core.unreadable import Unreadable
from celery_saga.errors import PayloadUnreadable
from celery_saga.store import SqlStore
from celery_saga.store.legible import Legible, legible
from celery_saga.store.offloaded import forget, references
from celery_saga.store.resealing import reseal, tables_to_reseal
from celery_saga.testing.samples import LONG_AGO, Adding, a_run, a_signal, a_step

_TEXT = '"pay 4929-7713 for \\u0000 Chargé 😀"'


class Mirror:
    """A codec that writes backwards; `is_blind`: it can read nothing."""

    def __init__(self) -> None:
        self.is_blind = False

    def encode(self, text: str) -> str:
        """Backwards."""
        return text[::-1]

    def decode(self, text: str) -> str:
        """Forwards again."""
        if self.is_blind:
            raise ValueError("blind")
        return text[::-1]


class Drawer:
    """Another store, in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._last = 0

    def put(self, text: str) -> str:
        """Numbered."""
        self._last += 1
        self.texts[str(self._last)] = text
        return str(self._last)

    def get(self, reference: str) -> str:
        """By its number."""
        return self.texts[reference]

    def delete(self, reference: str) -> None:
        """Once or twice."""
        self.texts.pop(reference, None)


class StoreSealing:
    """Needs the fixture `store` (migrated, empty)."""

    @pytest.fixture
    def mirror(self, store: SqlStore) -> Iterator[Mirror]:
        mirror = Mirror()
        store.vault.codec = mirror
        yield mirror
        store.vault.codec = None

    @pytest.fixture
    def drawer(self, store: SqlStore) -> Iterator[Drawer]:
        drawer = Drawer()
        store.vault.offload, store.vault.offload_above = drawer, 1024
        yield drawer
        store.vault.offload = None

    def test_payloads_come_back_as_given_and_are_stored_otherwise(self, store: SqlStore, mirror: Mirror) -> None:
        run = a_run(input_text=_TEXT, input_digest="d" * 64, headers_text=_TEXT, error_text=_TEXT)
        step = a_step(run.id, args_text=_TEXT, args_digest="e" * 64, spec_text=_TEXT, progress_text=_TEXT)
        store.insert_run(run)
        store.put_signal(a_signal(run.id, value_text=_TEXT, error_text=_TEXT))
        store.transact(run.id, Adding(step))

        loaded = store.load(run.id)
        store.vault.codec = None
        blind = store.load(run.id)

        assert loaded is not None and loaded.unreadable is None
        s = loaded.snapshot
        assert (s.run.input_text, s.run.input_digest, s.run.headers_text) == (_TEXT, "d" * 64, _TEXT)
        assert s.steps == {step.key: step}
        assert s.inbox[0].value_text == _TEXT
        assert blind is not None and blind.unreadable is not None
        assert isinstance(blind.snapshot.run.input_digest, Unreadable)
        assert blind.snapshot.run.input_digest.raw == "!s1:" + "d" * 64
        assert blind.snapshot.steps[step.key].args_text.raw == "!s1:" + _TEXT[::-1]  # type: ignore[attr-defined]

    def test_it_is_told_how_many_live_runs_cannot_be_read(self, store: SqlStore, mirror: Mirror) -> None:
        assert legible(store) == Legible(0)
        store.insert_run(a_run(input_digest="d" * 64))
        assert legible(store) == Legible(1)

        mirror.is_blind = True
        assert legible(store) == Legible(1, 1, "saga_codec cannot read it: ValueError")

    def test_nothing_is_changed_of_a_run_that_cannot_be_read(self, store: SqlStore, mirror: Mirror) -> None:
        run = a_run(input_text=_TEXT)
        store.insert_run(run)
        mirror.is_blind = True

        with pytest.raises(PayloadUnreadable, match=run.id):
            store.transact(run.id, Adding(a_step(run.id)))

        mirror.is_blind = False
        loaded = store.load(run.id)
        assert loaded is not None and loaded.snapshot.run == run

    def test_what_cannot_be_read_travels_as_it_is_stored(self, store: SqlStore, mirror: Mirror) -> None:
        run = a_run(input_text=_TEXT)
        step = a_step(run.id, args_text=_TEXT, spec_text=_TEXT)
        store.insert_run(run)
        store.transact(run.id, Adding(step))
        mirror.is_blind = True

        def copied(s: Snapshot, now: datetime) -> Snapshot:
            old = s.steps[step.key]
            return s.with_run(reason="unreadable").with_step(replace(old, result_text=old.args_text))

        store.transact(run.id, copied, as_stored=True)

        mirror.is_blind = False
        loaded = store.load(run.id)
        assert loaded is not None and loaded.snapshot.run.reason == "unreadable"
        assert loaded.snapshot.steps[step.key] == replace(step, result_text=_TEXT)

    def test_no_step_is_taken_that_cannot_be_read(self, store: SqlStore, mirror: Mirror) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, args_text=_TEXT, wake_at=LONG_AGO)))
        mirror.is_blind = True

        with pytest.raises(PayloadUnreadable):
            store.claim(run.id, 1, "charge", token="t", owner="h:1", lease_s=30)
        (due,) = store.pick_due(limit=10, hold_s=30)

        assert due.step is not None and isinstance(due.step.args_text, Unreadable)
        mirror.is_blind = False
        claimed = store.claim(run.id, 1, "charge", token="t", owner="h:1", lease_s=30)
        assert claimed is not None and claimed.step.attempt == 1

    def test_an_undo_is_seen_although_options_are_sealed(self, store: SqlStore, mirror: Mirror) -> None:
        """On PostgreSQL a claim commits asynchronously only where there is nothing to undo."""
        run = a_run()
        store.insert_run(run)
        undo = '{"undo":{"call":{"task":"shop.refund"}}}'
        store.transact(run.id, Adding(a_step(run.id, "safe", spec_text=undo), a_step(run.id, "light")))
        seen: list[str] = []
        for key in ("safe", "light"):
            seen.append(f"{key} {_is_async(store, run.id, key)}")

        assert seen == ["safe False", f"light {store.dialect == 'postgresql'}"]

    def test_long_payloads_are_kept_elsewhere_until_they_are_forgotten(
        self, store: SqlStore, mirror: Mirror, drawer: Drawer
    ) -> None:
        long = '"' + "x" * 2000 + '"'
        run, other = a_run(input_text=long), a_run(input_text=long)
        steps = [a_step(run.id, f"s{number}", args_text=f'[["{number}"],{{"long":{long}}}]') for number in range(5)]
        store.insert_run(run)
        store.insert_run(other)
        store.put_signal(a_signal(run.id, value_text=long))
        store.transact(run.id, Adding(*steps))
        store.vault._kept.clear()

        loaded = store.load(run.id)
        found = references(store, [run.id])

        assert loaded is not None and loaded.snapshot.run.input_text == long
        assert list(loaded.snapshot.steps.values()) == steps
        assert loaded.snapshot.inbox[0].value_text == long
        assert len(found) == 7 and len(drawer.texts) == 8
        assert all(text.startswith("!s1:") for text in drawer.texts.values())
        forget(store, found)
        forget(store, found)
        assert list(drawer.texts) == references(store, [other.id])

    def test_a_transition_takes_as_many_rounds_as_it_must_and_puts_each_text_once(
        self, store: SqlStore, drawer: Drawer
    ) -> None:
        run = a_run(input_text='"' + "i" * 2000 + '"')
        store.insert_run(run)
        store.vault._kept.clear()
        rounds: list[datetime] = []

        def grow(s: Snapshot, now: datetime) -> Snapshot:
            rounds.append(now)
            assert s.run.input_text == run.input_text
            return Adding(*(a_step(run.id, f"s{n}", args_text=f'["{n}{"x" * 2000}"]') for n in range(4)))(s, now)

        store.transact(run.id, grow)

        assert len(rounds) == 2  # the input was fetched before the first
        assert len(drawer.texts) == 1 + 4
        assert sorted(references(store, [run.id])) == sorted(drawer.texts)

    def test_what_is_in_clear_is_sealed_row_by_row(self, store: SqlStore) -> None:
        run = a_run(input_text=_TEXT)
        steps = [a_step(run.id, f"s{number}", args_text=_TEXT) for number in range(3)]
        store.insert_run(run)
        store.transact(run.id, Adding(*steps))
        mirror = store.vault.codec = Mirror()
        try:
            for table in tables_to_reseal(store):
                after = None
                while (after := reseal(store, table, after, limit=2).after) is not None:
                    continue
            mirror.is_blind = True
            blind = store.load(run.id)
            mirror.is_blind = False
            loaded = store.load(run.id)
        finally:
            store.vault.codec = None

        assert blind is not None and isinstance(blind.snapshot.run.input_text, Unreadable)
        assert all(isinstance(step.args_text, Unreadable) for step in blind.snapshot.steps.values())
        assert loaded is not None and loaded.snapshot.run.input_text == _TEXT
        assert list(loaded.snapshot.steps.values()) == steps


def _is_async(store: SqlStore, run_id: str, key: str) -> bool:
    """Whether a claim lets its transaction commit before it is on disk: the last column of what it reads of the run."""
    store.claim(run_id, 1, key, token=key, owner="h:1", lease_s=30)
    reading = store._parts.reading
    wanted = {"run_id": run_id, "generation": 1, "key": key}
    row = store.sessions.write("look", lambda tx: tx.run("look", reading._run_of_claim, wanted).one())
    return bool(row[-1] == "off")
