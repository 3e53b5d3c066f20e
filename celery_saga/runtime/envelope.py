"""Around the execution of a step: claim before Celery's tracer, checkpoint around the user's code.

The outer half claims the step, loads its arguments and calls Celery's own tracer with them, so that hooks, limits,
`self.request` and Flower see what they see of any task; a duplicate never gets to the tracer. The inner half lies
outside the user's `__call__`, whose transaction must not be able to roll back after the checkpoint.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

from billiard.einfo import ExceptionInfo
from celery.app.trace import TraceInfo, trace_ok_t
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from celery.states import IGNORED

from celery_saga.client.current import enter
from celery_saga.core import codec, failure
from celery_saga.core.attempts import Failed, Outcome, Succeeded
from celery_saga.core.log_fields import fields_of
from celery_saga.core.ports import Claimed
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import DefinitionError, SagaError, StoreUnavailable
from celery_saga.runtime.arguments import arguments_for
from celery_saga.runtime.attempt import Attempt, current, lease_of
from celery_saga.runtime.daemon import soft_limit_held
from celery_saga.runtime.names import HEADER
from celery_saga.runtime.reference import step_reference
from celery_saga.runtime.services import Services, owner, services_of
from celery_saga.runtime.told import tell_end
from celery_saga.runtime.transactional import InTransaction, Unstorable

__all__ = ["begin", "envelope", "execute", "outcome_unentered"]

logger = logging.getLogger("celery_saga.step")
seldom = Seldom(logger)

Tracer = Callable[[str, Any, Any, Any], Any]


def envelope(task: Any, tracer: Tracer) -> Tracer:
    """A tracer that first claims, when the message is a step's."""

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        given = None if request is None else request.get(HEADER)
        if given is None:
            return tracer(uuid, args, kwargs, request)
        ref = step_reference(given)
        if ref is None:
            seldom.warning("a message for the task %s names no step in its header; it was dropped", task.name)
            return _ignored()
        attempt = begin(task, ref)
        if attempt is None:
            return _ignored()
        request["retries"] = attempt.claimed.step.failures
        token = current.set(attempt)
        try:
            with attempt.services.telemetry.within(attempt.claimed.snapshot.run):
                return tracer(uuid, list(attempt.args), attempt.kwargs, request)  # a list, as from a message
        finally:
            current.reset(token)

    return traced


def begin(task: Any, ref: Mapping[str, Any]) -> Attempt | None:
    """Claim the step that a message names; None: a duplicate, or not now."""
    try:
        services = services_of(task.app)
        timeout_s = ref.get("timeout_s", services.settings.step_timeout)
        claimed = services.engine.claim(
            ref["run"], ref["generation"], ref["step"], owner=owner(), timeout_s=lease_of(timeout_s)
        )
    except SagaError as error:
        # Nothing is lost: the step stays due in the store.
        seldom.warning("step %r of run %s was not claimed: %s", ref.get("step"), ref.get("run"), error)
        return None
    if claimed is None:
        logger.debug("step %r of run %s is not to be had: done, running, or gone", ref["step"], ref["run"])
        return None
    if ref.get("task", claimed.step.task) != claimed.step.task:
        _give_back(services, claimed, str(ref["task"]))
        return None
    attempt = Attempt(task, claimed, services)
    try:
        attempt.args, attempt.kwargs = arguments_for(task, claimed.step.args_text)
    except SagaError as error:
        attempt.unreadable = error
    return attempt


def _give_back(services: Services, claimed: Claimed, task: str) -> None:
    """Anybody can write to a broker: one task must not be executed with the arguments of another."""
    step = claimed.step
    error = DefinitionError(
        f"a message for step {step.key!r} names the task {task!r}, but the step is of {step.task!r}"
    )
    seldom.warning("%s; it was not executed, and is sent again", error)
    services.engine.check_in(claimed, Failed(failure.capture(error), 0.0, is_put_back=True))


def _ignored() -> Any:
    """The answer of a tracer that has done nothing: acknowledged, no hooks, Flower's state unharmed."""
    try:
        raise Ignore
    except Ignore as exc:
        return trace_ok_t(ExceptionInfo(internal=True), TraceInfo(IGNORED, exc), 0.0, None)


def execute(attempt: Attempt, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run the user's code and check its end in; to Celery it returns or raises what that means for the task.

    What is no `Exception` (SystemExit, a shutdown) goes through unseen: the attempt's lease will end.
    """
    attempt.entered = True
    attempt.span = attempt.services.telemetry.step(attempt.claimed.snapshot.run, attempt.claimed.step)
    with attempt.span or nullcontext():
        return _execute(attempt, call, args, kwargs)


def _execute(attempt: Attempt, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    renewals = attempt.services.renewals
    renewals.add(attempt)
    try:
        if attempt.is_transactional:
            done = InTransaction(attempt, lambda connection: _returned(attempt, call, args, kwargs, connection))
        else:
            value = _returned(attempt, call, args, kwargs)
    except Retry as retry:
        _fail(attempt, _asked_for(retry), own_delay_s=_delay_s(retry))
    except (Ignore, Reject) as exc:
        _fail(attempt, _refused(attempt, exc), own_delay_s=None)
    except Unstorable as exc:
        tell_end(attempt, "failed", exc.error, is_final=True)
        _check_in(attempt, Failed(failure.capture(exc.error)))
        raise exc.error from None
    except Exception as exc:  # noqa: BLE001  # recorded as the step's failure, and raised again
        # A task that asked for a retry without leaving, and then raised, is retried by Celery too.
        _fail(attempt, exc, own_delay_s=None if attempt.retry is None else _delay_s(attempt.retry))
    else:
        return _committed(attempt, done) if attempt.is_transactional else _succeed(attempt, value)
    finally:
        renewals.remove(attempt)
        attempt.unwritten_progress()


def _returned(attempt: Attempt, call: Callable[..., Any], args: Any, kwargs: Any, connection: object = None) -> Any:
    attempt.retry = attempt.new_args = None
    value = _run(attempt, call, args, kwargs, connection)
    if attempt.retry is not None:  # self.retry(throw=False), and then it returned
        raise attempt.retry
    return value


def _run(attempt: Attempt, call: Callable[..., Any], args: Any, kwargs: Any, connection: object) -> Any:
    if attempt.unreadable is not None:
        raise attempt.unreadable
    with enter(attempt.context(connection)):
        attempt.in_body = True
        try:
            return call(*args, **kwargs)
        finally:
            attempt.in_body = False


def _succeed(attempt: Attempt, value: Any) -> Any:
    step, limits = attempt.claimed.step, attempt.services.engine.limits
    try:
        text = codec.encode(value, limit_bytes=limits.max_payload_bytes, what=f"result of step {step.key!r}")
    except SagaError as error:
        tell_end(attempt, "failed", error, is_final=True)
        _check_in(attempt, Failed(failure.capture(error), None, maybe=True))
        raise
    tell_end(attempt, "ok")
    try:
        _check_in(attempt, Succeeded(text))
    except StoreUnavailable:
        raise
    except SagaError as error:
        # The codec refuses the result, and what the step did is done: it counts as a result that cannot be stored.
        # Where the codec refuses this too, the attempt ends unseen, which says `maybe` as well.
        _check_in(attempt, Failed(failure.capture(error), None, maybe=True))
        raise
    return value


def _committed(attempt: Attempt, done: InTransaction) -> Any:
    if not done.has_landed:
        _refuse_late(attempt)
    tell_end(attempt, "ok")
    done.follow()
    return done.value


def _fail(attempt: Attempt, exc: BaseException, *, own_delay_s: float | None) -> None:
    """Check a failure in, and tell Celery: always raises."""
    engine = attempt.services.engine
    outcome = engine.failed(attempt.claimed, exc, own_delay_s=own_delay_s)
    if outcome.delay_s is None and isinstance(exc, SoftTimeLimitExceeded) and not attempt.is_transactional:
        outcome = replace(outcome, maybe=True)  # cut off in the middle
    if outcome.delay_s is not None and attempt.new_args is not None:
        try:
            _keep_arguments(attempt, attempt.new_args)
        except SagaError as error:
            exc, outcome = error, Failed(failure.capture(error))
    tell_end(attempt, "put_back" if outcome.is_put_back else "failed", exc, is_final=outcome.delay_s is None)
    if attempt.services.eager and outcome.delay_s is not None and not outcome.is_put_back:
        outcome = replace(outcome, delay_s=0.0)
    _check_in(attempt, outcome)
    if outcome.delay_s is not None:
        # Without a signature: Task.apply would run one at once.
        retry: Any = Retry
        raise retry(exc=None if isinstance(exc, Retry) else exc, when=outcome.delay_s) from exc
    raise exc


def _check_in(attempt: Attempt, outcome: Outcome) -> None:
    progress_text = attempt.unwritten_progress()
    if progress_text is not None:
        outcome = replace(outcome, progress_text=progress_text)
    if attempt.keep is not None:
        attempt.keep(outcome)
        return
    with soft_limit_held():
        landed = attempt.services.engine.check_in(attempt.claimed, outcome, elapsed_s=attempt.elapsed_s)
    if not landed:
        _refuse_late(attempt)


def _refuse_late(attempt: Attempt) -> NoReturn:
    step = attempt.claimed.step
    # Whoever ended the lease has warned.
    logger.info(
        "step %r of run %s, attempt %d: its lease had ended, so its outcome does not count",
        *(step.key, step.run_id, step.attempt),
        extra=fields_of(attempt.claimed.snapshot.run, step.key, step.attempt),
    )
    raise Ignore


def outcome_unentered(attempt: Attempt, trouble: TraceInfo | None) -> Outcome:
    """What it means for a step that its task was never called, as after an error of its `before_start`."""
    exc = None if trouble is None else trouble.retval
    if isinstance(exc, Retry):
        return attempt.services.engine.failed(attempt.claimed, _asked_for(exc), own_delay_s=_delay_s(exc))
    if not isinstance(exc, Exception) or isinstance(exc, (Ignore, Reject)):
        exc = _refused(attempt, exc if isinstance(exc, Exception) else Ignore())
    return attempt.services.engine.failed(attempt.claimed, exc)


def _asked_for(retry: Retry) -> BaseException:
    return retry.exc if isinstance(retry.exc, BaseException) else retry


def _delay_s(retry: Retry) -> float:
    when = retry.when
    if isinstance(when, datetime):
        now = datetime.now(UTC) if when.tzinfo is not None else datetime.now()  # noqa: DTZ005  # naive as given
        return max(0.0, (when - now).total_seconds())
    return max(0.0, float(when)) if isinstance(when, numbers.Real) else 0.0


def _refused(attempt: Attempt, exc: Exception) -> SagaError:
    name, key = type(exc).__name__, attempt.claimed.step.key
    error = SagaError(
        f"step {key!r} raised {name}, which would leave its run without an answer; it counts as the step's failure. "
        "Return a value, or raise an error that the saga declares."
    )
    error.__cause__ = exc
    return error


def _keep_arguments(attempt: Attempt, given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Write what `self.retry(args=...)` asks for, so that the next attempt gets it."""
    mine, limits = attempt.claimed.step, attempt.services.engine.limits
    text = codec.encode(
        [list(given[0]), given[1]], limit_bytes=limits.max_payload_bytes, what=f"arguments of step {mine.key!r}"
    )

    def change(s: Snapshot, now: datetime) -> Snapshot:
        step = s.steps.get(mine.key)
        if step is None or step.claim_token != mine.claim_token or step.status is not StepStatus.RUNNING:
            return s
        return s.with_step(replace(step, args_text=text))

    attempt.services.store.transact(mine.run_id, change)
