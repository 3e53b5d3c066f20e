"""Every operation in every status, with what it answers; what is refused leaves every row as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_saga.testing import Lab
from tests.desk.house import WAYS, app
from tests.desk.operations import BULK, OPERATIONS, VERBS, Tables, word_of

# What an operation answers, by the way in which its run came into its status. A status in three letters: it was done,
# and that is the run's status then, before anything of it is executed (live ones small, ends large). `.`: it answered
# and changed nothing. `T`: IllegalTransition. `kpt`, `dlv`: the signal is kept, delivered. `exp`: SignalExpired.
# `xst`: RunExists. `tok`: InvalidToken, its body makes none. `inv`: InvalidPayload. Columns: `drop` is
# cancel(compensate=False), `park` suspend, `from` retry(from_step=), `undo` and `args` retry_undo, `done` and `left`
# resolve_undo, `same`, `raise` and `again` start with each if_exists.
TABLE = """
way                    cancel drop park resume comp retry from skip undo args done left signal same raise again redeem
queued                 CAN    CAN  sus  T      T    T     T    T    T    T    T    T    kpt    .    xst   .     tok
queued_delayed         CAN    CAN  sus  T      T    T     T    T    T    T    T    T    kpt    .    xst   .     tok
queued_paused          CAN    CAN  sus  T      T    T     T    T    T    T    T    T    kpt    .    xst   .     tok
waiting_signal         com    CAN  sus  T      T    T     T    run  T    T    T    T    dlv    .    xst   .     run
waiting_timer          com    CAN  sus  T      T    T     T    run  T    T    T    T    kpt    .    xst   .     wai
running_attempt        com    com  sus  T      T    T     T    T    T    T    T    T    kpt    .    xst   .     run
running_back_off       com    CAN  sus  T      T    T     T    run  T    T    T    T    kpt    .    xst   .     run
pivoted                .      .    sus  T      T    T     T    run  T    T    T    T    dlv    .    xst   .     run
shielded               wai    wai  sus  T      T    T     T    run  T    T    T    T    dlv    .    xst   .     run
shielded_cancelled     .      .    sus  T      T    T     T    run  T    T    T    T    dlv    .    xst   .     run
undoing_attempt        .      .    sus  T      T    T     T    T    T    T    T    T    kpt    .    xst   .     com
undoing_back_off       .      .    sus  T      T    T     T    T    com  com  FAI  FAI  kpt    .    xst   .     com
undoing_stubborn       .      .    sus  T      T    T     T    T    com  com  FAI  FAI  kpt    .    xst   .     com
undoing_cancelled      .      .    sus  T      T    T     T    T    com  com  CAN  CAN  kpt    .    xst   .     com
parked_operator        com    CAN  T    run    com  T     T    sus  T    T    T    T    kpt    .    xst   .     sus
parked_while_undoing   .      .    T    com    T    T     T    T    sus  sus  sus  sus  kpt    .    xst   .     sus
parked_body_error      com    CAN  T    run    com  T     T    T    T    T    T    T    kpt    .    xst   .     tok
parked_non_determinism com    CAN  T    run    com  T     T    T    T    T    T    T    kpt    .    xst   .     sus
parked_input           CAN    CAN  T    run    FAI  T     T    T    T    T    T    T    kpt    inv  inv   inv   tok
parked_on_failure      com    CAN  T    run    com  T     T    run  T    T    T    T    kpt    .    xst   .     sus
parked_pivot           .      .    T    run    com  T     T    run  T    T    T    T    kpt    .    xst   .     sus
parked_deadline        .      .    T    run    com  T     T    sus  T    T    T    T    kpt    .    xst   .     sus
parked_stalled         com    CAN  T    run    com  T     T    T    T    T    T    T    kpt    .    xst   .     tok
parked_undo_failed     .      .    T    com    T    T     T    T    com  com  FAI  FAI  kpt    .    xst   .     sus
parked_undo_unknown    sus    CAN  T    T      sus  T     T    T    run  run  run  run  kpt    .    xst   .     sus
completed              .      .    T    T      com  T     T    T    T    T    T    T    exp    .    xst   .     exp
failed                 .      .    T    T      T    run   run  T    T    T    T    T    exp    .    xst   que   exp
cancelled              .      .    T    T      T    run   run  T    T    T    T    T    exp    .    xst   que   exp
cancelled_not_undone   .      .    T    T      com  run   com  T    T    T    T    T    exp    .    xst   com   exp
compensation_failed    .      .    T    T      T    T     T    T    com  com  FAI  FAI  exp    .    xst   .     exp
"""
_LINES = [line.split() for line in TABLE.strip().splitlines()]
EXPECTED = {line[0]: dict(zip(_LINES[0][1:], line[1:], strict=True)) for line in _LINES[1:]}


def test_the_table_has_every_way_and_every_operation() -> None:
    assert list(EXPECTED) == list(WAYS)
    assert _LINES[0][1:] == list(OPERATIONS)


@pytest.mark.parametrize("way", WAYS)
def test_every_operation_answers_as_the_table_says_and_refuses_without_a_trace(way: str) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        tables = Tables()

        found = {}
        for name, operation in OPERATIONS.items():
            with tables.as_they_are():
                word, _, told = word_of(handle, operation, tables)
                found[name] = word
                if word == "T":
                    assert f"while the run is {handle.status.value}" in told, (name, told)
                    assert "nothing was changed. It" in told, (name, told)

    assert found == EXPECTED[way]


@pytest.mark.parametrize("way", WAYS)
def test_a_second_call_gets_the_same_answer_or_a_named_error(way: str) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        tables = Tables()

        for name, operation in OPERATIONS.items():
            with tables.as_they_are():
                first, answer, _ = word_of(handle, operation, tables)
                second, again, told = word_of(handle, operation, tables)

                if first in {"T", "exp", "xst", "tok", "inv"}:
                    assert again == answer, name  # the same refusal
                elif second == ".":
                    assert _plain(again) == _plain(answer), name
                else:
                    assert second in {"T", "dup", "exp"}, (name, first, second, told)


@pytest.mark.parametrize("way", WAYS)
def test_for_many_runs_it_does_what_it_does_for_one_and_a_dry_run_tells_it_before(way: str) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        tables = Tables()
        these: dict[str, Any] = {"key": "k", "status": handle.status.value}

        for name, bulk in BULK.items():
            with tables.as_they_are():
                before = tables.rows()
                dry = bulk(dry_run=True, **these)
                assert tables.rows() == before, name
                real = bulk(dry_run=False, **these)
                after = tables.rows()
            with tables.as_they_are():
                word, code, _ = word_of(handle, OPERATIONS[name], tables)

                assert after == tables.rows(), name
                assert (real.matched, real.next, real.stopped) == (1, None, None)
                assert (dry.done, dry.unchanged, dry.refused) == (real.done, real.unchanged, real.refused), name
                if word == ".":
                    assert real.unchanged == (handle.id,), name
                elif isinstance(code, str) and code.isupper():
                    assert [(each.run_id, each.code) for each in real.refused] == [(handle.id, code)], name
                else:
                    assert real.done == (handle.id,), name


@pytest.mark.parametrize("way", WAYS)
def test_the_desk_lists_who_needs_a_person_with_the_verbs_that_work(way: str) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        entries = {entry.run.id: entry for entry in app.saga.desk()}
        works = {verb for name, verb in VERBS.items() if EXPECTED[way][name] not in {"T", "."}}

        needs_person = way.startswith("parked_") or way in {"undoing_stubborn", "compensation_failed"}
        assert (handle.id in entries) is needs_person
        if needs_person:
            entry = entries[handle.id]
            told = {*entry.verbs, *(verb for undo in entry.undos for verb in undo.verbs)}
            assert told | {"skip"} == works | {"skip"}
            assert "skip" not in told or "skip" in works
            assert entry.sentence
            assert entry.since == app.saga.engine.run_of(handle.id).attention_at


PURGEABLE = {"completed", "failed", "cancelled", "cancelled_not_undone"}


@pytest.mark.parametrize("keep_keys", [True, False], ids=["keys stay", "keys go"])
@pytest.mark.parametrize("way", WAYS)
def test_a_purge_takes_what_has_ended_and_leaves_every_row_of_the_others(way: str, keep_keys: bool) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        lab._clock.now += timedelta(seconds=2)  # and nothing that is due by then is done
        tables = Tables()
        before = tables.rows()

        tried = app.saga.purge(older_than=1, keep_keys=keep_keys, dry_run=True)
        assert tables.rows() == before
        done = app.saga.purge(older_than=1, keep_keys=keep_keys)
        again = app.saga.purge(older_than=1, keep_keys=keep_keys)

        assert tried["deleted"] == again["matched"] == again["deleted"] == 0
        assert tried["matched"] == done["matched"] == done["deleted"] == (way in PURGEABLE)
        if way not in PURGEABLE:
            assert tables.rows() == before
        elif keep_keys:
            assert [run.id for run in app.saga.runs(purged=True)] == [handle.id]
        else:
            assert len(tables.rows()[app.saga.store.schema.run.name]) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_pause_can_be_said_twice_and_taken_back_twice_and_ends_nothing(way: str) -> None:
    with Lab(app) as lab:
        handle = WAYS[way](lab)
        saga, status = app.saga.engine.run_of(handle.id).saga, handle.status
        tables = Tables()
        app.saga.pause(saga=saga, reason="bank is down", by="ann")
        paused = tables.rows()
        app.saga.pause(saga=saga, reason="bank is down", by="ann")

        assert tables.rows() == paused
        assert status.is_forward or handle.refresh().status is status
        assert not handle.status.is_end or status.is_end

        app.saga.unpause(saga=saga, reason="it is back", by="ann")
        lifted = tables.rows()
        assert not app.saga.unpause(saga=saga)
        assert tables.rows() == lifted


def _plain(answer: Any) -> Any:
    return answer if isinstance(answer, dict | str) else type(answer)
