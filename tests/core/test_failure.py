"""What is kept of an exception, and which exceptions come back."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest

from celery_saga.core.failure import (
    CAUSES_LIMIT,
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Failure,
    capture,
    from_text,
    matches,
    rebuild,
    to_text,
)
from celery_saga.errors import InvalidPayload, NonRetryable, RunFailed, RunNotFound


class Declined(Exception):
    pass


class CardDeclined(Declined):
    def __init__(self, card: str, cents: int) -> None:
        super().__init__(f"card {card} declined for {cents}")
        self.card = card
        self.cents = cents


class KeywordsOnly(Exception):
    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __str__(self) -> str:
        return f"because {self.reason}"


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("always the same")


class Booby(Exception):
    def __init__(self, *args: object) -> None:
        raise AssertionError("the constructor was called")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Hostile(Exception):
    @property
    def args(self):
        raise RuntimeError("no args")


class Stop(BaseException):
    pass


class DiskFull(OSError):
    def __init__(self, disk: str) -> None:
        super().__init__(28, "no space")
        self.disk = disk


class CardStolen(Declined, NonRetryable):
    pass


@dataclass
class Card:
    number: str


def through_text(exc: BaseException, *classes: type[BaseException]) -> BaseException | None:
    return rebuild(from_text(to_text(capture(exc))), classes)


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    "exc",
    [
        Declined("no money"),
        Declined(),
        Declined("several", 1, (2.5, None)),
        CardDeclined("1234", 500),
        KeywordsOnly(reason="rain"),
        NoArguments(),
        Stop("halt"),
        CardStolen("gone"),
        DiskFull("/dev/sda"),
        RunNotFound("no run 'x'", run_id="x"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_a_declared_exception_comes_back_with_type_args_text_and_attributes(exc):
    again = through_text(exc, type(exc))

    assert type(again) is type(exc)
    assert again.args == exc.args
    assert str(again) == str(exc)
    assert vars(again) == vars(exc)


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("bad"),
        KeyError("missing"),
        FileNotFoundError(2, "gone", "/tmp/a"),
        ConnectionResetError(104, "reset"),
        OSError("text only"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        StopIteration(3),
        ZeroDivisionError(),
        TimeoutError("late"),
    ],
    ids=repr,
)
def test_a_builtin_exception_comes_back_without_being_declared(exc):
    again = through_text(exc)

    assert type(again) is type(exc)
    assert again.args == exc.args
    assert str(again) == str(exc)


def test_an_os_error_keeps_its_number_and_file_name():
    again = through_text(FileNotFoundError(2, "gone", "/tmp/a"))

    assert (again.errno, again.strerror, again.filename) == (2, "gone", "/tmp/a")


def test_a_subclass_of_os_error_with_its_own_constructor_keeps_its_number():
    again = through_text(DiskFull("/dev/sda"), DiskFull)

    assert (again.errno, again.strerror, again.disk) == (28, "no space", "/dev/sda")


def test_an_undeclared_class_does_not_come_back():
    assert through_text(Declined("no"), CardDeclined, LookupError) is None


def test_a_subclass_of_a_declared_class_comes_back_as_itself():
    assert type(through_text(CardDeclined("1", 2), Declined)) is CardDeclined


@pytest.mark.parametrize("cls", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_exit_of_the_process_does_not_come_back_unless_declared(cls):
    assert through_text(cls()) is None
    assert type(through_text(cls(), cls)) is cls


@pytest.mark.parametrize(
    "name", ["builtins.print", "builtins.__import__", "builtins.int", "os.system", "builtins", "", "x.y.Z"]
)
def test_a_name_in_the_data_that_is_no_known_exception_gives_nothing(name):
    failure = Failure(type_name=name, type_names=(name,), message="m")

    assert rebuild(failure, [Declined]) is None


def test_the_constructor_is_not_called():
    failure = Failure(type_name=f"{Booby.__module__}.Booby", type_names=(), message="m", args_text='{"$tuple":[1]}')

    assert rebuild(failure, [Booby]).args == (1,)


def test_args_that_cannot_be_stored_leave_the_message_as_only_arg():
    exc = Declined("locked", threading.Lock())

    again = through_text(exc, Declined)

    assert again.args == (str(exc),)


def test_args_that_would_come_back_as_something_else_leave_the_message():
    again = through_text(Declined(Card("1")), Declined)

    assert again.args == ("Card(number='1')",)


def test_an_attribute_that_cannot_be_stored_does_not_cost_the_others():
    exc = CardDeclined("1234", 500)
    exc.response = threading.Lock()

    again = through_text(exc, CardDeclined)

    assert vars(again) == {"card": "1234", "cents": 500}


def test_a_huge_attribute_is_left_out():
    exc = CardDeclined("1234", 500)
    exc.body = "x" * 1_000_000

    assert len(to_text(capture(exc))) < 20_000


def test_notes_come_back():
    exc = Declined("x")
    exc.add_note("look here")

    assert through_text(exc, Declined).__notes__ == ["look here"]


def test_an_exception_group_names_its_members_and_does_not_come_back():
    failure = capture(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))

    assert "ValueError('a')" in failure.message
    assert "KeyError('b')" in failure.message
    assert rebuild(failure, [ExceptionGroup]) is None


def test_a_raising_str_does_not_stop_the_capture():
    failure = capture(raised(Mute("x")))

    assert "RuntimeError" in failure.message
    assert "Mute" in failure.traceback
    assert type(rebuild(failure, [Mute])) is Mute


def test_a_class_that_hides_its_args_does_not_stop_the_capture():
    assert capture(Hostile("x")).type_name.endswith(".Hostile")


def test_message_and_traceback_are_bounded():
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise Declined("x" * 100_000)

    with pytest.raises(Declined) as caught:
        deep(200)
    failure = capture(caught.value)

    assert len(failure.message) == MESSAGE_LIMIT
    assert len(failure.traceback) <= TRACEBACK_LIMIT


def test_the_traceback_names_the_place():
    failure = capture(raised(Declined("x")))

    assert "test_failure.py" in failure.traceback
    assert "Declined: x" in failure.traceback


def test_lone_surrogates_in_a_message_are_escaped():
    failure = from_text(to_text(capture(Declined("\ud800"))))

    assert failure.message == "\\ud800"


def test_causes_are_kept_and_come_back():
    try:
        try:
            raise CardDeclined("1", 2)
        except CardDeclined as error:
            raise Declined("outer") from error
    except Declined as error:
        failure = from_text(to_text(capture(error)))

    assert failure.cause.message == "card 1 declined for 2"
    assert "direct cause" not in failure.traceback
    assert isinstance(rebuild(failure, [Declined, CardDeclined]).__cause__, CardDeclined)


def test_what_was_being_handled_is_a_cause_unless_suppressed():
    shown, hidden = Declined("a"), Declined("b")
    shown.__context__ = ValueError("c")
    hidden.__context__ = ValueError("c")
    hidden.__suppress_context__ = True

    assert capture(shown).cause.message == "c"
    assert capture(hidden).cause is None


def test_the_chain_of_causes_is_bounded_and_may_be_a_ring():
    first = exc = Declined("0")
    for number in range(1, 20):
        exc.__cause__ = Declined(str(number))
        exc = exc.__cause__
    ring = Declined("a")
    ring.__cause__ = Declined("b")
    ring.__cause__.__cause__ = ring

    messages = []
    failure = capture(first).cause
    while failure is not None:
        messages.append(failure.message)
        failure = failure.cause

    assert messages == [str(number) for number in range(1, CAUSES_LIMIT + 1)]
    assert capture(ring).cause.cause is None


def test_matches_looks_at_the_stored_bases():
    failure = capture(CardDeclined("1", 2))

    assert matches(failure, [CardDeclined])
    assert matches(failure, [KeyError, Declined])
    assert matches(failure, [Exception])
    assert not matches(failure, [CardStolen, ValueError])
    assert not matches(failure, [])


def test_a_second_base_is_matched_too():
    assert matches(capture(CardStolen("x")), [NonRetryable])


def test_two_classes_of_one_short_name_are_told_apart():
    other = type("Declined", (Exception,), {"__module__": "elsewhere"})

    assert not matches(capture(other("x")), [Declined])
    assert through_text(other("x"), Declined) is None


def test_the_code_of_our_own_errors_is_kept():
    assert capture(RunNotFound("x")).code == "RUN_NOT_FOUND"
    assert capture(CardStolen("x")).code == "NON_RETRYABLE"
    assert capture(ValueError("x")).code is None


def test_an_error_that_carries_an_error_comes_back_without_it():
    again = through_text(RunFailed("x", cause=Declined("y"), step="charge"), RunFailed)

    assert (again.step, again.cause) == ("charge", None)


def test_a_failure_round_trips_through_text():
    failure = capture(raised(CardDeclined("1", 2)))

    assert from_text(to_text(failure)) == failure
    json.loads(to_text(failure))


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", "null", '{"type_name": "x"}'])
def test_a_damaged_text_is_refused(text):
    with pytest.raises(InvalidPayload):
        from_text(text)
