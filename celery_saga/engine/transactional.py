"""A transactional step: the task's writes and its checkpoint commit together, or neither does.

Theory of operation. The claim was committed before. The task writes in a transaction of ours; when it has returned,
the run is locked in that transaction, the claim is looked at and the checkpoint written, and all of it commits. Whoever
lost the claim meanwhile loses the writes. The body is decided after the commit, never while locks are held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import datetime
from typing import Any

from celery_saga.core import attempts
from celery_saga.core.advance import settle
from celery_saga.core.attempts import Fenced, Outcome
from celery_saga.core.focus import Focus, focus_of
from celery_saga.core.log_fields import fields_of
from celery_saga.core.ports import Claimed
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.transactions import Broken, StepTransaction, Transactions
from celery_saga.core.waits import tick
from celery_saga.engine import coordinator
from celery_saga.engine.dispatch import is_for, messages_of
from celery_saga.engine.ports import Transition
from celery_saga.engine.seldom import Seldom
from celery_saga.engine.worker import land
from celery_saga.engine.world import World
from celery_saga.errors import SagaError, StoreUnavailable

logger = logging.getLogger("celery_saga.step")
seldom = Seldom(logger)

_TRIES = 10
_FIRST_PAUSE_S, _LONGEST_REPEAT_PAUSE_S = 0.01, 1.0
_PATIENCE_S, _LONGEST_PAUSE_S = 3600.0, 5.0  # as for any checkpoint

Task = Callable[[Any], Outcome]
"""The task, given the connection to write through; what it raises is its failure."""


class _Landed(Exception):  # noqa: N818 - not an error: this very checkpoint has landed before
    """A transaction whose commit was believed lost had committed: this one repeats it, and is rolled back."""


def execute(
    world: World,
    claimed: Claimed,
    task: Task,
    transactions: Transactions,
    *,
    uninterrupted: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Transition | None:
    """Execute a claimed attempt with its checkpoint in one transaction; `follow` is for the caller, afterwards.

    After a deadlock, a serialization failure or a lost connection the whole task is executed again: nothing of it is
    left, and nothing is counted. At most 10 times in all.

    Args:
        task: may be called several times.
        transactions: opens a transaction.
        uninterrupted: entered from the task's return to the commit.
    Returns:
        What has committed; None: the claim is no longer ours, and nothing is left of the task's writes.
    Raises:
        Exception: what the task raised, or what the database said to its writes at the end; all is rolled back.
    """
    for count in range(1, _TRIES + 1):
        attempt = _Try(world, claimed, task, transactions, uninterrupted)
        try:
            return attempt.once()
        except Fenced:
            return None
        except _Landed:
            return attempt.transition
        except Exception as error:
            if attempt.has_landed():
                return attempt.transition
            if not attempt.is_broken or count == _TRIES:
                raise
            logger.info(
                "step %r of run %s: its transaction is repeated after %r", claimed.step.key, claimed.step.run_id, error
            )
        world.pause(world.draw() * min(_FIRST_PAUSE_S * 2**count, _LONGEST_REPEAT_PAUSE_S))
    raise AssertionError("the last try returns or raises")


class _Try:
    """One execution in one transaction."""

    def __init__(
        self,
        world: World,
        claimed: Claimed,
        task: Task,
        transactions: Transactions,
        uninterrupted: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._world = world
        self._claimed = claimed
        self._task = task
        self._transactions = transactions
        self._uninterrupted = uninterrupted
        self._tx: StepTransaction | None = None
        self._outcome: Outcome | None = None
        self.transition: Transition | None = None

    @property
    def is_broken(self) -> bool:
        """The database ended it, not the task."""
        return self._tx is not None and self._tx.broken is not None

    def once(self) -> Transition:
        with ExitStack() as stack:
            tx = self._tx = self._opened(stack)
            outcome = self._outcome = self._task(tx.connection)
            with self._uninterrupted():
                tx.check()
                self.transition = self._checkpoint(tx, outcome)
                stack.close()  # the commit
        return self.transition

    def _opened(self, stack: ExitStack) -> StepTransaction:
        """A transaction, as soon as there is one to be had: nothing has been executed yet that could have failed."""
        world = self._world
        begun_s, pause_s = world.monotonic_s(), _FIRST_PAUSE_S
        while True:
            try:
                return stack.enter_context(self._transactions())
            except StoreUnavailable:
                if world.monotonic_s() - begun_s > _PATIENCE_S:
                    raise
            world.pause(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def has_landed(self) -> bool:
        """Whether it has committed although its connection was lost while committing.

        Asked under the run's lock, which a commit under way still holds.
        """
        outcome, mine = self._outcome, self._claimed.step
        if self.transition is None or outcome is None or self._tx is None or self._tx.broken is not Broken.LOST:
            return False
        landed = False

        def look(s: Snapshot, now: datetime) -> Snapshot:
            nonlocal landed
            try:
                again = attempts.check_in(s, mine.key, mine.claim_token or "", outcome, now, self._world.resend_s)
            except Fenced:
                return s
            landed = again is s
            return s

        land(self._world, mine, look, focus=_focus_of(mine.key))
        return landed

    def _checkpoint(self, tx: StepTransaction, outcome: Outcome) -> Transition:
        try:
            transition = check_in(self._world, tx, self._claimed, outcome)
        except (Fenced, _Landed):
            raise
        except Exception as error:
            if tx.broken is None and tx.first_error is not None:
                raise SagaError(
                    f"step {self._claimed.step.key!r}: the database had refused something that the task wrote "
                    f"({tx.first_error}), and the task went on; everything was rolled back. Put what may fail into "
                    "`with current_step.connection.begin_nested():`."
                ) from error
            raise
        if transition.new is transition.old:
            self.transition = transition
            raise _Landed
        return transition


def check_in(world: World, tx: StepTransaction, claimed: Claimed, outcome: Outcome) -> Transition:
    """Write the checkpoint of an attempt into an open transaction; nothing is decided.

    Returns:
        The transition; with `new` being `old` where this very checkpoint has landed before.
    Raises:
        Fenced: the claim is no longer ours; the transaction must be rolled back.
    """
    step = claimed.step

    def change(s: Snapshot, now: datetime) -> Snapshot:
        ticked = tick(s, now, world.resend_s)
        new = attempts.check_in(ticked, step.key, step.claim_token or "", outcome, now, world.resend_s)
        return s if new is ticked else settle(new, now, world.resend_s)

    transition = tx.store.transact(step.run_id, change, focus=_focus_of(step.key))
    if transition is None:
        raise Fenced(step.key)
    return transition


def _focus_of(key: str) -> Focus | None:
    return focus_of(key, deciding=False)


def follow(world: World, transition: Transition) -> None:
    """After the commit: messages go out, and the body is decided here and now, in a transaction of its own."""
    world.observe(transition)
    messages = messages_of(transition)
    of_run = [each for each in messages if is_for(each, transition.new.run)]
    world.publisher.publish([each for each in messages if each not in of_run])
    world.admit(transition)
    if of_run:
        try:
            coordinator.coordinate(world, transition.new.run.id)
        except StoreUnavailable as error:
            # The checkpoint is safe, and the run is due: a sweeper will have it decided.
            run = transition.new.run
            seldom.warning("run %s was not decided: %s", run.id, error, extra=fields_of(run))
