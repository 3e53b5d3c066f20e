"""Messages that are none, to a real worker: each is refused with a word or does nothing, and the worker goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from celery_saga import errors
from celery_saga.runtime.names import COORDINATE, FIRE, HEADER, REPORT, STEP
from tests.faults.points import Fault
from tests.faults.sagas import s3
from tests.faults.world import World, world_with
from tests.fuzz.nonsense import mangled, texts, values
from tests.workers import Worker, wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]

MANY, FEW = 2000, 120
"""Messages in a heavy run, and in a plain one."""
NAMED = tuple(name for name, it in vars(errors).items() if isinstance(it, type) and issubclass(it, errors.SagaError))


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[World, Worker, Any]]:
    """A worker that executes a step, and will until it is told otherwise: nonsense about that one is the worst."""
    hold = Fault("held", "a", "before_effect", "hold")
    with (
        world_with("redis", tmp_path, saga_lease=30.0) as world,
        world.worker([hold], concurrency=2) as worker,
    ):
        run = s3.start("held")
        world.wait_sql("SELECT status FROM saga_step WHERE run_id = %s AND key = 'a'", "running", run.id)
        yield world, worker, run


def _sent(run: Any) -> st.SearchStrategy[tuple[str, Any, Any, Any]]:
    """Name, header, positional and named arguments of a message."""
    step = {"run": run.id, "generation": 1, "step": "a", "task": "faults.do", "timeout_s": 5.0}
    part = {"run": run.id, "generation": 1, "part": "group[0]"}
    ids = {"run": run.id, "step": "a", "token": "of another attempt", "failed": True}
    headers = st.one_of(mangled(step), mangled(part)).filter(lambda it: it is not None)  # a task without one is no step
    args = st.one_of(st.just([]), st.lists(values, max_size=2))
    named = st.one_of(st.just({}), mangled(ids).filter(lambda it: isinstance(it, dict)), st.dictionaries(texts, values))
    names = st.sampled_from([COORDINATE, STEP, REPORT, FIRE, "faults.do", "saga.s3"])
    return st.tuples(names, headers, args, named)


def unnamed(text: str) -> list[str]:
    """What the worker said of exceptions, but for the errors by which a saga refuses its input."""
    said = [line for line in text.splitlines() if line.startswith(("[ERROR", "[CRITICAL"))]
    named = re.compile(rf"\[ERROR celery\.app\.trace .*Task saga\.s3.* raised unexpected: ({'|'.join(NAMED)})\(")
    return [line for line in said if not named.match(line)]


@pytest.mark.parametrize("messages", [FEW, pytest.param(MANY, marks=pytest.mark.heavy)])
def test_no_message_does_any_harm(held: tuple[World, Worker, Any], messages: int) -> None:
    world, worker, run = held
    sent: list[str] = []

    @settings(
        max_examples=messages,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_sent(run))
    def send(message: tuple[str, Any, Any, Any]) -> None:
        name, header, args, kwargs = message
        sent.append(str(uuid4()))
        world.app.send_task(name, args=args, kwargs=kwargs, headers={HEADER: header}, task_id=sent[-1])

    send()
    after = s3.start("after")
    assert world.wait_ended([after], 60) == {"completed": 1}
    wait_until(lambda: world.depth() == 0, 60, "an empty queue")
    assert unnamed(worker.text) == []
    # What was being done goes on as if nothing had been said.
    step = world.step(run, "a")
    assert (step.status, step.attempt, step.stalls) == ("running", 1, 0)
    world.release("held", "a")
    assert world.wait_ended([run], 60) == {"completed": 1}
