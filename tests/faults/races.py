"""What processes do at once to one run, each with an engine of its own that remembers what it would have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from celery_saga import Run, Signal, saga
from celery_saga.client import binding
from celery_saga.core import codec
from celery_saga.core.attempts import Succeeded
from celery_saga.core.ports import Claimed
from celery_saga.definition.registry import Registry
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Message, RunMessage
from celery_saga.errors import SignalDuplicate, SignalExpired
from celery_saga.store import SqlStore, open_store
from tests.faults.phases import quick

GO = Signal("go", str)


@saga(name="raced")
def raced(run: Run) -> str:
    run.step(quick.si(1), name="a")
    word = run.wait_signal(GO)
    run.step(quick.si(2), name="b")
    return word


Sent = list[str]
"""Keys of the steps that were sent, in order; `run` for a wake-up of the run."""


class Racer:
    """An engine of this process; messages are remembered and go nowhere."""

    eager = False

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.registry = Registry((raced,))
        self.sent: Sent = []
        self.engine = Engine(store, self, self.registry)

    def publish(self, messages: Sequence[Message]) -> int:
        self.sent += ["run" if isinstance(message, RunMessage) else message.step.key for message in messages]
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 0

    def headers(self) -> Mapping[str, str]:
        return {}

    def after_start(self, run_id: str) -> None:
        pass


@cache
def opened(url: str) -> SqlStore:
    """One store in each process, which keeps the statements that it has compiled."""
    return open_store(url)


def start(store: SqlStore) -> str:
    """A new run, not decided yet. For a process of its own: sagas are bound to this engine from now on."""
    racer = Racer(store)
    binding.set_resolver(lambda _saga: racer)
    return raced.start().id


def coordinate(store: SqlStore, run_id: str) -> Sent:
    """Advance the run."""
    racer = Racer(store)
    racer.engine.coordinate(run_id)
    return racer.sent


def claim(store: SqlStore, run_id: str, key: str) -> Claimed | None:
    """Take the step's next attempt."""
    return Racer(store).engine.claim(run_id, 1, key, owner="racer:1")


def check_in(store: SqlStore, claimed: Claimed) -> Sent:
    """Check a success in, with what the body decides next."""
    racer = Racer(store)
    assert racer.engine.check_in(claimed, Succeeded(codec.encode(1)))
    return racer.sent


def signal(store: SqlStore, run_id: str, word: str, signal_id: str) -> tuple[str, Sent]:
    """Send the signal; what was answered, and the messages."""
    racer = Racer(store)
    try:
        answer = racer.engine.signal(run_id, "go", signal_id=signal_id, value_text=codec.encode(word))
    except (SignalDuplicate, SignalExpired) as error:
        answer = error.code
    return answer, racer.sent
