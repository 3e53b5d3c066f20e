"""The point of no return of a run: once it is passed the run only goes forward, however long that takes.

Theory of operation. A pivot is a mark that the body places, or a step whose success is one; it stands at the top of the
body. From then on cancel is refused, a step that fails is tried again without end, and whatever else would end the
forward part (an error that leaves the body, the deadline, a bug, a step that is lost too often) parks the run.
"""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core.failure import Failure
from celery_saga.core.orders import StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.retry import Retry, backoff_s, is_bounded
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.errors import DefinitionError

PIVOT = "pivot"
"""Task of the mark that the body places."""
_ENDLESS = Retry(None, delay=1, factor=2.0, max_delay=300).to_plain()


def is_pivot(step: StepRecord) -> bool:
    """The run has passed its pivot with this step."""
    if step.status is not StepStatus.DONE:
        return False
    if step.kind is StepKind.MARK:
        return step.task == PIVOT
    return step.kind is StepKind.STEP and '"is_pivot"' in step.spec_text and StepSpec.from_text(step.spec_text).is_pivot


def passed(s: Snapshot, key: str) -> Snapshot:
    """After this step has ended: the pivot is passed where it is one, and the run still goes forward."""
    if s.run.outcome is not None or s.run.restart or not is_pivot(s.steps[key]):
        return s
    return s.with_run(pivoted=True)


def is_passed(s: Snapshot) -> bool:
    """The run can only go forward. Not so once a person has let it be undone all the same."""
    return s.run.pivoted and s.run.outcome is None


def again_s(s: Snapshot, step: StepRecord, error: Failure, jitter: float = 0.0) -> float | None:
    """When a step that its own policy gives up is tried again all the same.

    Args:
        step: as claimed, before this failure is counted.
        jitter: in [0, 1).
    Returns:
        Seconds: by the delays of its own policy, else doubling from 1 s to 300 s; None: it is not, because the pivot
        is not passed, or the task says itself that it makes no sense (NonRetryable).
    """
    has_end = step.kind in (StepKind.UNDO, StepKind.CHORD) or "celery_saga.errors.NonRetryable" in error.type_names
    if has_end or not is_passed(s):
        return None
    return backoff_s(StepSpec.from_text(step.spec_text).retry or _ENDLESS, step.failures + 1, jitter)


def refuse_bounded(orders: Iterable[Order]) -> None:
    """After the pivot a step has no last attempt.

    Raises:
        DefinitionError: the policy of one of these orders has; nothing was ordered.
    """
    for order in orders:
        if order.kind is not StepKind.STEP or '"retry"' not in order.spec_text:
            continue
        policy = StepSpec.from_text(order.spec_text).retry
        if policy is not None and is_bounded(policy):
            raise DefinitionError(
                f"step {order.key!r}: its retry= is bounded (max_attempts, on or never_on), but it follows the pivot, "
                "after which a step is tried until it succeeds; nothing was ordered. Write "
                "Retry(max_attempts=None, ...), or leave retry= out."
            )
