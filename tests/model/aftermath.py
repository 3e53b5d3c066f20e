"""What a move leaves behind: who now holds nothing any more, whose reading is out of date, which messages are void."""

from __future__ import annotations

from tests.model import rules, verbs
from tests.model.state import CAREFUL, ZOMBIE, Activity, Attempt, Mail, State
from tests.model.store import holds
from tests.model.verbs import Done

REOPENS = {"resume", "retry", "retry undo", "resolve undo"}
"""Events after which a step or a run that has ended goes on."""


def attempts_after(attempts: tuple[Attempt, ...], held: frozenset[str], *, moved: bool) -> tuple[Attempt, ...]:
    now: dict[Attempt, None] = {}
    for each in attempts:
        attempt = each
        if each.is_zombie:
            pass
        elif each.step not in held:
            zombie = verbs.as_zombie(each.claimed)
            attempt = Attempt(zombie, None, has_acted=each.has_acted, is_zombie=True, answers=each.answers)
        elif moved and each.seen is not None:
            late = verbs.outdated(each.claimed)
            attempt = Attempt(late, None, has_acted=each.has_acted, is_zombie=False, answers=each.answers)
        now[attempt] = None
    return tuple(sorted(now, key=lambda x: x.order))


def activities_after(activities: tuple[Activity, ...], done: Done) -> tuple[Activity, ...]:
    if not done.moved:
        return activities
    return tuple(sorted((_outdated(x, done) for x in activities), key=lambda x: x.order))


def _outdated(activity: Activity, done: Done) -> Activity:
    """An activity after somebody else has moved the run."""
    is_robbed = activity.token == CAREFUL and not done.claim_stands
    mine = verbs.robbed(activity.answers, done.held)
    if activity.seen is None and not is_robbed and mine is activity.answers:
        return activity
    answers, token = tuple(map(verbs.outdated, mine)), activity.token
    if is_robbed:
        answers, token = tuple(verbs.with_claim(x, None) for x in answers), ZOMBIE
    return Activity(activity.verb, activity.next_call, activity.tries, token, None, answers, holds(answers))


def settled(state: State) -> State:
    """Without the messages that can do nothing any more: nobody will reopen what they are for."""
    if REOPENS & set(state.events_left):
        return state
    run = state.tables.run
    live = {(x.key, x.generation) for x in state.tables.steps if not x.status.is_end}
    kept = tuple(x for x in state.mail if (not run.status.is_end if x.step is None else (x.step, x.generation) in live))
    return state if kept == state.mail else state._replace(mail=kept)


def act(state: State, attempt: Attempt) -> State:
    outside = rules.act(state.outside, attempt.claimed.step, state.tables)
    return with_attempt(
        state._replace(outside=outside),
        Attempt(attempt.claimed, attempt.seen, has_acted=True, is_zombie=attempt.is_zombie),
    )


def with_attempt(state: State, attempt: Attempt) -> State:
    attempts = {*state.attempts, attempt} if attempt.is_zombie else (*state.attempts, attempt)
    return state._replace(attempts=tuple(sorted(attempts, key=lambda x: x.order)))


def without_attempt(state: State, attempt: Attempt) -> State:
    return state._replace(attempts=tuple(x for x in state.attempts if x is not attempt))


def without_activity(state: State, activity: Activity) -> State:
    return state._replace(activities=tuple(x for x in state.activities if x is not activity))


def without_mail(state: State, mail: Mail) -> State:
    left = list(state.mail)
    left.remove(mail)
    return state._replace(mail=tuple(left))
