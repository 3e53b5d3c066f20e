"""Tokens: a link that answers a wait once, until it expires, is revoked, or its run has begun again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import (
    DefinitionError,
    InvalidPayload,
    InvalidToken,
    Run,
    RunHandle,
    Saga,
    Signal,
    SignalDuplicate,
    SignalExpired,
    saga,
)
from celery_saga.client import tokens
from tests.scenarios.house import House

OLD, NEW, OTHER = "k" * 32, "n" * 32, "x" * 32


@dataclass(frozen=True)
class Answer:
    approved: bool


APPROVAL = Signal("approval", Answer)


@pytest.fixture
def sent(house: House) -> list[str]:
    """Tokens that bodies have sent by a step; the house's keys are set."""
    house.registry.secret_keys = (OLD,)
    found: list[str] = []

    @house.task("mail")
    def mail(token: str) -> None:
        if token not in found:
            found.append(token)

    return found


def redeem(
    house: House,
    token: str,
    value: object = None,
    *,
    error: BaseException | None = None,
    keys: Sequence[str] = (OLD,),
) -> RunHandle[Any]:
    def get(run_id: str) -> RunHandle[Any]:
        record = house.engine.run_of(run_id)
        return RunHandle(house.engine, run_id, house.registry.get(record.saga, record.version), False)

    return tokens.redeem(house.engine, get, keys, token, value, error)


def _asks(house: House, *, expires: Any = None, signal: Any = "approval", **options: Any) -> Saga[[], Any]:
    @saga(name="asks", **options)
    def asks(run: Run) -> Any:
        run.step(house.app.tasks["mail"].si(run.token(signal, expires=expires)))
        return run.wait_signal(signal)

    house.add(asks)
    return asks


def test_it_answers_the_wait_once(house: House, sent: list[str]) -> None:
    handle = _asks(house).start()
    house.drain()
    (token,) = sent

    answered = redeem(house, token, "yes")
    with pytest.raises(SignalDuplicate, match="redeemed before"):
        redeem(house, token, "no")
    house.drain()

    assert answered.id == handle.id
    assert handle.wait(1) == "yes"
    with pytest.raises(SignalDuplicate):
        redeem(house, token, "again")


def test_it_may_come_before_the_wait(house: House, sent: list[str]) -> None:
    @saga(name="late")
    def late(run: Run) -> Any:
        run.step(house.app.tasks["mail"].si(run.token("approval")))
        run.sleep(100)
        return run.wait_signal("approval")

    house.add(late)
    handle = late.start()
    house.drain()
    redeem(house, sent[0], "early")
    house.advance(101)

    assert handle.wait(1) == "early"


def test_it_is_the_same_in_each_replay_also_after_the_key_was_replaced(house: House, sent: list[str]) -> None:
    handle = _asks(house).start()
    house.drain()
    house.registry.secret_keys = (NEW,)

    redeem(house, sent[0], "yes", keys=(NEW, OLD))
    house.drain()

    assert handle.wait(1) == "yes"
    assert len(sent) == 1


def test_the_first_key_signs_and_all_are_accepted(house: House, sent: list[str]) -> None:
    house.registry.secret_keys = (NEW, OLD)
    handle = _asks(house).start()
    house.drain()

    with pytest.raises(InvalidToken):
        redeem(house, sent[0], "yes", keys=(OLD, OTHER))
    redeem(house, sent[0], "yes", keys=(OTHER, NEW))
    house.drain()

    assert handle.wait(1) == "yes"


def test_what_was_not_signed_by_us_is_refused_without_being_repeated(house: House, sent: list[str]) -> None:
    handle = _asks(house).start()
    house.drain()
    token = sent[0]
    forged = [
        token[:-9] + ("A" if token[-9] != "A" else "B") + token[-8:],
        token[11:],
        "",
        "nonsense",
        token + "x",
        "ü",
        None,
        3,
    ]

    for each in forged:
        with pytest.raises(InvalidToken) as caught:
            redeem(house, each, "no")  # type: ignore[arg-type]
        assert token[20:40] not in str(caught.value)

    assert house.store.signals(handle.id) == []


def test_it_expires(house: House, sent: list[str]) -> None:
    handle = _asks(house, expires=timedelta(hours=1)).start()
    house.drain()
    house.now += timedelta(hours=1)

    with pytest.raises(SignalExpired, match="expired"):
        redeem(house, sent[0], "late")

    assert handle.refresh().status == "waiting"


def test_a_later_one_for_the_same_signal_revokes_it(house: House, sent: list[str]) -> None:
    @saga(name="reminds")
    def reminds(run: Run) -> Any:
        other = run.token("other")
        for _ in range(2):
            run.step(house.app.tasks["mail"].si(run.token("approval")))
        run.step(house.app.tasks["mail"].si(other))
        return [run.wait_signal("approval"), run.wait_signal("other")]

    house.add(reminds)
    handle = reminds.start()
    house.drain()
    first, second, other = sent

    with pytest.raises(InvalidToken, match="revoked"):
        redeem(house, first, "first")
    redeem(house, second, "second")
    redeem(house, other, "other")
    house.drain()

    assert handle.wait(1) == ["second", "other"]


def test_a_token_of_a_part_counts_though_the_part_is_over(house: House, sent: list[str]) -> None:
    @saga(name="parts")
    def parts(run: Run) -> Any:
        def ask(run: Run, name: str) -> str:
            run.step(house.app.tasks["mail"].si(run.token(name)))
            return name

        names = run.map(ask, ["a", "b"])
        return list(run.wait_signals(names).values())

    house.add(parts)
    handle = parts.start()
    house.drain()

    for token in sent:
        redeem(house, token, "yes")
    house.drain()

    assert handle.wait(1) == ["yes", "yes"]


def test_a_run_that_begins_again_leaves_its_tokens_behind(house: House, sent: list[str]) -> None:
    @saga(name="renews")
    def renews(run: Run, number: int) -> Any:
        run.step(house.app.tasks["mail"].si(run.token("approval")))
        if number == 1:
            run.continue_as_new(2)
        return run.wait_signal("approval")

    house.add(renews)
    handle = renews.start(1)
    house.drain()
    first, second = sent

    with pytest.raises(InvalidToken):
        redeem(house, first, "first")
    redeem(house, second, "second")
    house.drain()

    assert handle.wait(1) == "second"


def test_a_retry_that_keeps_the_record_keeps_the_token(house: House, sent: list[str]) -> None:
    @saga(name="again", errors=[ValueError])
    def again(run: Run) -> Any:
        run.step(house.app.tasks["mail"].si(run.token("approval")))
        if run.wait_signal("go") == "bad":
            raise ValueError("bad")
        return run.wait_signal("approval")

    house.add(again)
    handle = again.start()
    house.drain()
    handle.signal("go", "bad")
    house.drain()
    with pytest.raises(SignalExpired):
        redeem(house, sent[0], "too early")
    handle.refresh().retry(from_step="go")
    house.drain()
    handle.signal("go", "good")
    house.drain()

    redeem(house, sent[0], "yes")
    house.drain()

    assert handle.refresh().wait(1) == "yes"
    assert len(sent) == 1


def test_the_value_is_checked_and_a_refused_one_leaves_the_token(house: House, sent: list[str]) -> None:
    handle = _asks(house, signal=APPROVAL, signals=[APPROVAL]).start()
    house.drain()

    with pytest.raises(InvalidPayload):
        redeem(house, sent[0], "yes")
    with pytest.raises(InvalidPayload):
        redeem(house, sent[0], Answer(True), error=ValueError("both"))
    redeem(house, sent[0], Answer(True))
    house.drain()

    assert handle.wait(1) == {"approved": True}


def test_it_can_answer_with_an_error(house: House, sent: list[str]) -> None:
    handle = _asks(house, errors=[ValueError]).start()
    house.drain()

    redeem(house, sent[0], error=ValueError("refused"))
    house.drain()

    assert handle.refresh().status == "failed"
    assert "refused" in str(handle.error)


def test_one_of_a_run_that_has_ended_or_is_gone_is_refused(house: House, sent: list[str]) -> None:
    handle = _asks(house).start()
    house.drain()
    handle.cancel()

    with pytest.raises(SignalExpired):
        redeem(house, sent[0], "late")
    house.place.empty()
    with pytest.raises(InvalidToken, match="no more"):
        redeem(house, sent[0], "late")


def test_without_keys_the_body_parks_with_the_remedy_and_goes_on_once_they_are_set(
    house: House, sent: list[str]
) -> None:
    house.registry.secret_keys = ()
    handle = _asks(house).start()
    house.drain()
    before = (handle.refresh().status, str(handle.error))

    house.registry.secret_keys = (OLD,)
    handle.resume()
    house.drain()
    with pytest.raises(DefinitionError, match="saga_secret_keys"):
        redeem(house, sent[0], "yes", keys=())
    redeem(house, sent[0], "yes")
    house.drain()

    assert before[0] == "suspended"
    assert "saga_secret_keys" in before[1]
    assert handle.refresh().wait(1) == "yes"


def test_it_is_in_no_history_and_no_log(house: House, sent: list[str], caplog: Any) -> None:
    asked = {"more": False}

    @saga(name="changes")
    def changes(run: Run) -> Any:
        token = run.token("approval")
        run.step(house.app.tasks["mail"].si(token + "?more" if asked["more"] else token))
        return run.wait_signal("approval")

    house.add(changes)
    with caplog.at_level(logging.DEBUG):
        handle = changes.start()
        house.drain()
        asked["more"] = True
        house.engine.coordinate(handle.id)
        told = str([handle.refresh().error, house.store.history(handle.id), handle.waiting_on])

    assert handle.status == "suspended"
    for part in (sent[0], sent[0][11:60], sent[0][-30:]):
        assert part not in told
        assert part not in caplog.text
    assert "saga-token.***" in told


def test_a_name_that_the_saga_does_not_declare_and_a_bad_expiry_record_nothing(house: House, sent: list[str]) -> None:
    strict = _asks(house, signals=[APPROVAL], on_bug="compensate").start()
    house.drain()

    assert "does not declare" not in str(strict.error)
    for wrong in (0, -1, "soon"):
        handle = _asks(house, expires=wrong, on_bug="compensate").options(key=str(wrong)).start()
        house.drain()
        assert handle.refresh().status == "failed"
    unknown = _asks(house, signal="other", signals=[APPROVAL], on_bug="compensate").options(key="other").start()
    house.drain()
    assert "does not declare" in str(unknown.error)
    assert unknown.steps() == []
