"""Transactional steps as parts of groups, maps and races, and inside parts that are functions."""

from __future__ import annotations

from typing import Any

from celery_saga import Run, current_step, saga, step
from tests.transactional.bank import Bank, write


def _pays(bank: Bank) -> Any:
    @bank.task("pays_part")
    def pays_part(word: str) -> str:
        write(current_step.connection, word)
        if word == "bad":
            raise KeyError(word)
        return word

    return pays_part


def test_parts_of_a_group_and_a_map_commit_with_their_checkpoints(bank: Bank) -> None:
    pays = _pays(bank)

    @saga(name="tx-joins")
    def body(run: Run) -> Any:
        first = run.group(step(pays.si("a"), transactional=True), step(pays.si("b"), transactional=True))
        second = run.map(step(pays.s(), transactional=True), ["c", "d", "e"])
        return [*first, *second]

    run = bank.add(body).start()

    assert run.result == ["a", "b", "c", "d", "e"]
    assert sorted(bank.words()) == ["a", "b", "c", "d", "e"]


def test_steps_inside_of_a_part_lead_on(bank: Bank) -> None:
    pays = _pays(bank)

    @saga(name="tx-parts")
    def body(run: Run) -> Any:
        def part(run: Run, item: str) -> str:
            run.step(pays.si(f"first {item}"), transactional=True)
            return str(run.step(pays.si(f"second {item}"), transactional=True))

        return run.map(part, ["x", "y"])

    run = bank.add(body).start()

    assert run.result == ["second x", "second y"]
    assert sorted(bank.words()) == ["first x", "first y", "second x", "second y"]


def test_a_part_that_fails_leaves_nothing_and_its_siblings_are_undone(bank: Bank) -> None:
    pays = _pays(bank)

    @bank.task("undoes_part")
    def undoes_part(word: str) -> None:
        write(current_step.connection, f"undone {word}")

    @saga(name="tx-part-fails", errors=[KeyError])
    def body(run: Run) -> Any:
        return run.map(step(pays.s(), transactional=True), ["good", "bad"], undo=undoes_part)

    run = bank.add(body).start()

    assert run.status == "failed"
    assert bank.words() == ["good", "undone good"]


def test_a_child_run_of_transactional_steps_reports_its_end(bank: Bank) -> None:
    pays = _pays(bank)

    @saga(name="tx-child")
    def child(run: Run) -> str:
        return str(run.step(pays.si("child"), transactional=True))

    @saga(name="tx-parent")
    def body(run: Run) -> str:
        return str(run.child(child))

    bank.add(child)
    run = bank.add(body).start()

    assert run.result == "child"
    assert bank.words() == ["child"]
