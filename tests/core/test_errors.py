"""Every error has a code and a status, can be read, and survives pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from celery_saga import errors
from celery_saga.errors import (
    InvalidPayload,
    NonRetryable,
    PayloadTooLarge,
    RateLimited,
    RunFailed,
    RunNotFound,
    SagaError,
    SignalDuplicate,
    StepFailed,
    StepLost,
)

CLASSES = [getattr(errors, name) for name in errors.__all__]
PLAIN = [cls for cls in CLASSES if cls not in {StepFailed, RateLimited}]

BUILTIN_BASES = {
    "InvalidPayload": ValueError,
    "RunNotFound": LookupError,
    "UnknownSaga": LookupError,
    "WaitTimeout": TimeoutError,
    "StepTimeout": TimeoutError,
    "SignalTimeout": TimeoutError,
}

CODES = {
    "RunNotFound": "RUN_NOT_FOUND",
    "UnknownSaga": "UNKNOWN_SAGA",
    "InvalidPayload": "INVALID_ARGUMENT",
    "DeadlineExceeded": "TIMEOUT",
    "SignalDuplicate": "SIGNAL_DUPLICATE",
    "SignalNotExpected": "SIGNAL_NOT_EXPECTED",
    "SignalExpired": "SIGNAL_EXPIRED",
    "DefinitionError": "DEFINITION_ERROR",
    "IdempotencyConflict": "IDEMPOTENCY_CONFLICT",
}

STATUSES = {
    "RunNotFound": 404,
    "UnknownSaga": 404,
    "InvalidPayload": 400,
    "PayloadTooLarge": 413,
    "SignalDuplicate": 409,
    "SignalNotExpected": 409,
    "SignalExpired": 409,
    "RateLimited": 429,
    "StoreUnavailable": 503,
}

MADE = [
    SagaError("text"),
    InvalidPayload("text", path="order.id"),
    PayloadTooLarge("text", size_bytes=3, limit_bytes=2),
    RunNotFound("text", run_id="r1"),
    RunFailed("text", cause=ValueError("why"), step="charge"),
    RateLimited(2.5),
    SignalDuplicate("text", signal="approval"),
    StepLost("text", step="charge", attempts=5),
    StepFailed("charge", "shop.Declined", "no", 3, type_names=("shop.Declined", "shop.Base")),
    NonRetryable("text"),
]


def test_every_error_of_the_module_is_public():
    defined = {
        name
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, Exception) and name[:1] != "_"
    }

    assert defined == set(errors.__all__)


def test_codes_are_unique():
    assert len({cls.code for cls in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_has_its_own_code_and_a_status_of_an_error(cls):
    assert "code" in vars(cls)
    assert cls.code == cls.code.upper()
    assert 400 <= cls.http_status < 600


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_a_promised_code_is_kept(name, code):
    assert getattr(errors, name).code == code


@pytest.mark.parametrize(("name", "status"), STATUSES.items())
def test_a_promised_status_is_kept(name, status):
    assert getattr(errors, name).http_status == status


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not NonRetryable], ids=lambda c: c.__name__)
def test_an_error_is_a_saga_error_and_of_its_builtin(cls):
    assert issubclass(cls, SagaError)
    assert issubclass(cls, BUILTIN_BASES.get(cls.__name__, Exception))


def test_non_retryable_joins_with_an_error_that_has_its_own_constructor():
    class Declined(Exception):
        def __init__(self, card: str, cents: int) -> None:
            super().__init__(card, cents)

    class CardStolen(Declined, NonRetryable):
        pass

    assert CardStolen("1234", 5).args == ("1234", 5)
    assert not issubclass(NonRetryable, SagaError)


@pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.__name__)
def test_the_message_is_the_text(cls):
    assert str(cls("run 'x' is gone")) == "run 'x' is gone"


@pytest.mark.parametrize("cls", [c for c in PLAIN if c is not NonRetryable], ids=lambda cls: cls.__name__)
def test_without_a_message_an_error_says_what_its_class_means(cls):
    assert str(cls()) == cls.__doc__.partition("\n")[0]


@pytest.mark.parametrize("make", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
@pytest.mark.parametrize("error", MADE, ids=lambda e: type(e).__name__)
def test_an_error_survives_with_its_attributes(error, make):
    again = make(error)

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert {k: repr(v) for k, v in vars(again).items()} == {k: repr(v) for k, v in vars(error).items()}


@pytest.mark.parametrize("error", MADE, ids=lambda e: type(e).__name__)
def test_the_message_attribute_is_the_text_alone(error):
    assert getattr(error, "message", error.args[-1]) == error.args[-1]


def test_step_failed_says_step_error_and_what_to_do():
    text = str(StepFailed("charge", "shop.errors.Declined", "no money", 3))

    assert "'charge'" in text
    assert "3 attempts" in text
    assert "shop.errors.Declined: no money" in text
    assert "add Declined to errors=" in text


def test_step_failed_is_a_compares_stored_names_of_bases():
    name = f"{__name__}.Local"
    local = type("Local", (Exception,), {"__module__": __name__})
    error = StepFailed("charge", name, "x", 1, type_names=(name, "builtins.LookupError"))

    assert error.is_a(local)
    assert error.is_a(LookupError)
    assert not error.is_a(KeyError)
    assert StepFailed("charge", name, "x", 1).is_a(local)


def test_rate_limited_says_when_to_try_again():
    assert RateLimited(2.5).seconds == 2.5
    assert "2.5 s" in str(RateLimited(2.5))
    assert str(RateLimited(1, "slow down")) == "slow down"
