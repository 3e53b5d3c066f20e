"""Every error that celery_saga raises, with its stable code and HTTP status."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, ClassVar

# all of them
__all__ = ["SagaError"]
# what a definition got wrong
__all__ += ["DefinitionError", "DuplicateStepError", "UnknownSaga"]
# what a caller gave
__all__ += [
    "IdempotencyConflict",
    "InvalidPayload",
    "InvalidToken",
    "PayloadTooLarge",
    "PayloadUnreadable",
    "RunExists",
    "RunNotFound",
    "ScheduleNotFound",
]
# how a run ended, as its waiter sees it
__all__ += ["ResultPurged", "RunCancelled", "RunFailed", "WaitTimeout"]
# what a body may see and catch
__all__ += ["DeadlineExceeded", "SignalFailed", "SignalTimeout", "StepFailed", "StepLost", "StepTimeout"]
# what a sender of a signal sees
__all__ += ["SignalDuplicate", "SignalExpired", "SignalNotExpected"]
# what the engine refuses
__all__ += ["IllegalTransition", "NonDeterminismError"]
# what is not available now
__all__ += ["RateLimited", "SchemaOutdated", "StoreUnavailable"]
# what a step may raise to say "do not try again"
__all__ += ["NonRetryable"]


def _restore(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    # Constructors with keyword-only attributes cannot be called with `args`
    # alone, which is what the default pickling of exceptions does.
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class SagaError(Exception):
    """Base of every error of celery_saga.

    Args:
        message: one readable sentence or more: which thing, what was wrong, what was
            left unchanged, what to do. Without one, the class's docstring is used.
    """

    code: ClassVar[str] = "SAGA_ERROR"
    """Stable, upper case; what the command line and HTTP answer with."""
    http_status: ClassVar[int] = 500
    """The status that the HTTP interface answers with, 400 to 599."""

    def __init__(self, message: str | None = None) -> None:
        text = self._default_message() if message is None else message
        super().__init__(text)

    @classmethod
    def _default_message(cls) -> str:
        return (cls.__doc__ or cls.__name__).strip().partition("\n")[0]

    @property
    def message(self) -> str:
        """The text alone, as given."""
        return str(self.args[-1]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


class DefinitionError(SagaError):
    """A saga, step, signal or option is defined wrongly; nothing was registered or written."""

    code = "DEFINITION_ERROR"


class DuplicateStepError(SagaError):
    """Two steps of one scope have the same explicit name; the second was not ordered."""

    code = "DUPLICATE_STEP"


class UnknownSaga(SagaError, LookupError):
    """No saga of that name and version is registered here; nothing was written."""

    code = "UNKNOWN_SAGA"
    http_status = 404


class InvalidPayload(SagaError, ValueError):
    """A value cannot be stored, or does not fit what was declared; nothing was written.

    Args:
        path: where in the value, like `order.items[3].price`; empty when it is the whole.
    """

    code = "INVALID_ARGUMENT"
    http_status = 400

    def __init__(self, message: str | None = None, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(SagaError):
    """A value is larger than `saga_max_payload_bytes`; nothing was written.

    Args:
        size_bytes: size of the encoded value, in bytes of UTF-8.
        limit_bytes: the limit, in bytes.
    """

    code = "PAYLOAD_TOO_LARGE"
    http_status = 413

    def __init__(
        self, message: str | None = None, *, size_bytes: int | None = None, limit_bytes: int | None = None
    ) -> None:
        super().__init__(message)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class PayloadUnreadable(InvalidPayload):
    """A stored text cannot be read now: its key is missing, it was damaged, or it is gone; it was left as it is."""

    code = "PAYLOAD_UNREADABLE"
    http_status = 500


class _OfRun(SagaError):
    """`.run_id`: the run that was asked for, or that holds the key."""

    def __init__(self, message: str | None = None, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class IdempotencyConflict(_OfRun):
    """A run with this key exists with other arguments; it was left as it is."""

    code = "IDEMPOTENCY_CONFLICT"
    http_status = 409


class RunExists(_OfRun):
    """A run with this key exists and `if_exists="raise"` was asked for; nothing was written."""

    code = "RUN_EXISTS"
    http_status = 409


class RunNotFound(_OfRun, LookupError):
    """There is no such run; nothing was written."""

    code = "RUN_NOT_FOUND"
    http_status = 404


class ScheduleNotFound(SagaError, LookupError):
    """There is no such schedule; nothing was written."""

    code = "SCHEDULE_NOT_FOUND"
    http_status = 404


class InvalidToken(SagaError):
    """A signal token is forged or revoked, or belongs elsewhere; no signal was delivered."""

    code = "INVALID_TOKEN"
    http_status = 403


class RunFailed(SagaError):
    """A run ended without a result, after its undos.

    Args:
        cause: the error that ended the forward part, rebuilt where its class is declared.
        step: key of the step that failed; None when no step did.
    """

    code = "RUN_FAILED"
    http_status = 409
    cause: BaseException | None = None
    step: str | None = None

    def __init__(
        self, message: str | None = None, *, cause: BaseException | None = None, step: str | None = None
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.step = step


class RunCancelled(SagaError):
    """A run was cancelled; what it had done is undone, unless undos were skipped on request."""

    code = "RUN_CANCELLED"
    http_status = 409


class ResultPurged(SagaError):
    """The run has ended and its result was purged; its key and status are kept."""

    code = "RESULT_PURGED"
    http_status = 410


class WaitTimeout(SagaError, TimeoutError):
    """The run did not end in the time given; it goes on."""

    code = "WAIT_TIMEOUT"
    http_status = 504


class StepFailed(SagaError):
    """A step failed for good with an error whose class the saga does not declare.

    Args:
        step: key of the step.
        type_name: qualified name of the error's class, like `shop.errors.CardDeclined`.
        message: the error's own text.
        attempts: attempts made, counted from 1.
        type_names: qualified names of that class and its bases, nearest first.
    """

    code = "STEP_FAILED"
    http_status = 409

    def __init__(
        self, step: str, type_name: str, message: str, attempts: int, *, type_names: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.step = step
        self.type_name = type_name
        self.attempts = attempts
        self.type_names = tuple(type_names)

    def __str__(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        short = self.type_name.rpartition(".")[2]
        return (
            f"step {self.step!r} failed after {times} with {self.type_name}: {self.message} "
            f"(to catch it as {short}, add {short} to errors= of the saga)"
        )

    def is_a(self, cls: type[BaseException]) -> bool:
        """Whether the step's error was of `cls` or a subclass of it.

        Compares stored names, so the error's module is not imported.
        """
        wanted = f"{cls.__module__}.{cls.__qualname__}"
        return wanted == self.type_name or wanted in self.type_names


class _OfStep(SagaError):
    """`.step`: key of the step; `.attempts`: attempts made, counted from 1."""

    def __init__(self, message: str | None = None, *, step: str | None = None, attempts: int = 0) -> None:
        super().__init__(message)
        self.step = step
        self.attempts = attempts


class StepTimeout(_OfStep, TimeoutError):
    """A step did not end within its time-out; its effect may exist."""

    code = "STEP_TIMEOUT"
    http_status = 409


class StepLost(_OfStep):
    """Every attempt of a step ended unseen, as when its process dies; its effect may exist."""

    code = "STEP_LOST"
    http_status = 409


class DeadlineExceeded(SagaError):
    """The run did not end before its deadline; what it had done is undone."""

    code = "TIMEOUT"
    http_status = 409


class _OfSignal(SagaError):
    """`.signal`: the signal's name; None when it is not about one alone."""

    def __init__(self, message: str | None = None, *, signal: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal


class SignalTimeout(_OfSignal, TimeoutError):
    """No signal came before the wait's time-out."""

    code = "SIGNAL_TIMEOUT"
    http_status = 409


class SignalFailed(_OfSignal):
    """The sender answered a wait with an error whose class the saga does not declare."""

    code = "SIGNAL_FAILED"
    http_status = 409


class SignalDuplicate(_OfSignal):
    """A signal with this id was received before; the first one counts, this one was dropped."""

    code = "SIGNAL_DUPLICATE"
    http_status = 409


class SignalNotExpected(_OfSignal):
    """The saga declares its signals and this is none of them; it was not stored."""

    code = "SIGNAL_NOT_EXPECTED"
    http_status = 409


class SignalExpired(_OfSignal):
    """The run has ended, or the only wait for this signal is over; it was not stored."""

    code = "SIGNAL_EXPIRED"
    http_status = 409


class NonDeterminismError(SagaError):
    """A replayed body ordered something else than recorded; the run is parked, unchanged."""

    code = "NON_DETERMINISM"
    http_status = 409


class IllegalTransition(SagaError):
    """The run, step or lane is in a state that does not allow this; nothing was changed."""

    code = "ILLEGAL_TRANSITION"
    http_status = 409


class RateLimited(SagaError):
    """A limit was reached; nothing was done yet and it may be tried again.

    Args:
        seconds: when to try again, from now, in seconds or as timedelta, at least 0.
    Raises:
        DefinitionError: something else.
    """

    code = "RATE_LIMITED"
    http_status = 429

    def __init__(self, seconds: float | timedelta, message: str | None = None) -> None:
        self.seconds = _span_s(seconds)
        super().__init__(f"a limit was reached; try again in {self.seconds:g} s" if message is None else message)
        # As the arguments of a call: result backends keep no more of an error than its class and these.
        self.args = (self.seconds, *self.args)

    def __str__(self) -> str:
        return self.message


def _span_s(value: object) -> float:
    raw = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw < math.inf:
        raise DefinitionError(f"RateLimited(seconds): give seconds, finite, from 0, or a timedelta, got {value!r:.60}")
    return float(min(raw, 3.2e11))


class StoreUnavailable(SagaError):
    """The database cannot be reached; what was to be written may have to be asked for again."""

    code = "STORE_UNAVAILABLE"
    http_status = 503


class SchemaOutdated(SagaError):
    """The tables are missing or too old; run `celery -A proj saga migrate`."""

    code = "SCHEMA_OUTDATED"
    http_status = 503


class NonRetryable(Exception):
    """Raised by a step, itself or a subclass: the step has failed, and is not tried again.

    Not a `SagaError`, and without a constructor, so that it can be a second base of a
    project's own error: `class CardStolen(PaymentError, NonRetryable)`.
    """

    code: ClassVar[str] = "NON_RETRYABLE"
    http_status: ClassVar[int] = 409
