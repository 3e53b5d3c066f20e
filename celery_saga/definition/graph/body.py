"""The body that follows a graph: from state to state, with nothing but the verbs of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from celery_saga.definition.graph import paths
from celery_saga.definition.graph.calls import arguments, signature
from celery_saga.definition.graph.choose import Incomparable, chosen
from celery_saga.definition.graph.drawing import drawn
from celery_saga.definition.graph.model import Graph, State, kind_of
from celery_saga.definition.graph.reach import ERROR
from celery_saga.definition.names import Again
from celery_saga.definition.results import Collected
from celery_saga.errors import (
    DefinitionError,
    DuplicateStepError,
    InvalidPayload,
    NonDeterminismError,
    PayloadTooLarge,
    SagaError,
    SignalTimeout,
    StepFailed,
    StepTimeout,
)

if TYPE_CHECKING:
    from celery_saga.definition.run import Run

__all__ = ["FailedEnd", "body_of"]

_MISTAKES = (DefinitionError, DuplicateStepError, InvalidPayload, NonDeterminismError, PayloadTooLarge)
"""What a transition `fail` does not take: nothing was ordered, so that no step has failed."""


class FailedEnd(SagaError):
    """A state with end: "failed" was entered, and no step had failed."""

    code = "FAILED_END"
    http_status = 409


def body_of(graph: Graph) -> Callable[..., Any]:
    """The body of a graph; it takes the run's input."""

    def body(run: Run, input: Any = None) -> Any:  # noqa: A002 - the word that paths begin with
        return _Walk(run, graph, {"input": input}, input).follow(graph.start, graph.states)

    body.__name__, body.__qualname__ = graph.name, f"graph {graph.name} {graph.digest[:12]}"
    body.__doc__ = f"The states of graph {graph.name!r} version {graph.version}."
    body.graph, body.diagram = graph, partial(drawn, graph)  # type: ignore[attr-defined]
    return body


class _Walk:
    """One pass through states: those of a graph, or of one branch.

    Args:
        known: what paths may begin at; grows with each state that is passed.
        previous: the output of the state before.
    """

    def __init__(self, run: Run, graph: Graph, known: Mapping[str, Any], previous: Any) -> None:
        self._run = run
        self._graph = graph
        self._known = dict(known)
        self._previous = previous
        self._failed: tuple[str, Exception] | None = None
        self._kinds: dict[str, Callable[[str, State], str]] = {
            "step": self._step,
            "map": self._map,
            "parallel": self._parallel,
            "choice": self._choice,
            "wait": self._wait,
            "signal": self._signal,
        }

    def follow(self, name: str, states: Mapping[str, State]) -> Any:
        """Go from this state to an end; the output of that.

        Raises:
            Exception: the end is a failed one, or an error has no transition.
        """
        while True:
            state = states[name]
            kind = kind_of(state)
            try:
                if kind == "end":
                    return self._end(name, state)
                name = self._kinds[kind](name, state)
            except (paths.Missing, Incomparable) as error:
                raise DefinitionError(f"state {name!r}: {error.args[0]}; nothing was ordered.") from error

    # -- kinds ---------------------------------------------------------------------------------------------------
    def _step(self, name: str, state: State) -> str:
        call = self._call(name, state)
        return self._leave(name, state, "ok", lambda: self._run.step(call))

    def _map(self, name: str, state: State) -> str:
        said = state["map"]
        items = paths.read(said["items"], self._known)
        if not isinstance(items, list | tuple):
            raise DefinitionError(
                f"state {name!r}: {said['items']} is {type(items).__name__} and no list; nothing was ordered."
            )
        args, kwargs = arguments(said, self._known, [])
        call: Any = signature(said["task"], name, state, args, kwargs, self._known)
        options = _join_options(name, said)
        return self._leave(name, state, "ok", lambda: self._gathered(name, self._run.map(call, items, **options)))

    def _parallel(self, name: str, state: State) -> str:
        said = state["parallel"]
        parts = {each: self._branch(each, branch) for each, branch in said["branches"].items()}
        options = _join_options(name, said)
        return self._leave(name, state, "ok", lambda: self._gathered(name, self._run.group(parts, **options)))

    def _branch(self, name: str, branch: Mapping[str, Any]) -> Any:
        if "step" in branch:
            return self._call(name, branch)
        known, previous, start, states = dict(self._known), self._previous, branch["start"], branch["states"]
        return lambda run: _Walk(run, self._graph, known, previous).follow(start, states)

    def _call(self, name: str, state: State) -> Any:
        args, kwargs = arguments(state, self._known, [self._previous])
        return signature(state["step"], name, state, args, kwargs, self._known)

    def _gathered(self, name: str, found: Any) -> Any:
        """What a join gave, as plain values."""
        if not isinstance(found, Collected):
            return found
        # Recorded, as what `_take` tells.
        told = [each.error and _told(name, each.error) for each in found.results]
        errors = self._run.record("errors", lambda: told) if found.failed else told
        results = [
            {"name": each.name, "output": each.output, "error": error}
            for each, error in zip(found.results, errors, strict=True)
        ]
        return {"succeeded": found.succeeded, "failed": found.failed, "results": results}

    def _choice(self, name: str, state: State) -> str:
        return chosen(state["choice"], self._known)

    def _wait(self, name: str, state: State) -> str:
        waited = paths.resolve(state["wait"], self._known)
        if isinstance(waited, str):
            try:
                waited = datetime.fromisoformat(waited)
            except ValueError:
                raise DefinitionError(f"state {name!r}: {waited!r} is no instant; nothing was ordered.") from None
        if isinstance(waited, datetime):
            self._run.sleep_until(waited, Again(name))
        elif isinstance(waited, int | float | Decimal | timedelta):
            self._run.sleep(float(waited) if isinstance(waited, Decimal) else waited, Again(name))
        else:
            raise DefinitionError(f"state {name!r}: cannot wait for {waited!r}; nothing was ordered.")
        return str(state["on"]["ok"])

    def _signal(self, name: str, state: State) -> str:
        timeout_s = state.get("timeout_s")
        return self._leave(
            name, state, "signal", lambda: self._run.wait_signal(str(state["signal"]), timeout=timeout_s)
        )

    def _end(self, name: str, state: State) -> Any:
        if state["end"] is True:
            return paths.resolve(state["output"], self._known) if "output" in state else self._previous
        if self._failed is None:
            raise FailedEnd(f"run {self._run.id!r}: the state {name!r} ends it as failed")
        failed, error = self._failed
        error.add_note(f"state {failed!r} failed, and the state {name!r} ended the run as failed")
        raise error

    # -- transitions ---------------------------------------------------------------------------------------------
    def _leave(self, name: str, state: State, word: str, execute: Callable[[], Any]) -> str:
        """The state that follows: by `word` where nothing is raised, else by the transition that takes the error."""
        on: Mapping[str, str] = state["on"]
        try:
            output = execute()
        except _MISTAKES:
            raise
        except Exception as error:
            is_late = isinstance(error, SignalTimeout | StepTimeout)
            target = on.get("timeout", on.get("fail")) if is_late else on.get("fail")
            if target is None:
                raise
            self._take(name, error)
            return target
        self._known[name] = self._previous = output
        if self._failed is not None and self._failed[0] == name:
            self._failed = None
        return on[word]

    def _take(self, name: str, error: Exception) -> None:
        self._failed = (name, error)
        if f'"$.{ERROR}' in self._graph.text:
            # Recorded: a worker that knows the error's class, and one that does not, shall tell the same.
            self._known[ERROR] = self._run.record(ERROR, lambda: _told(name, error))


def _join_options(name: str, said: Mapping[str, Any]) -> Any:
    concurrency = said.get("concurrency")
    return {
        "concurrency": None if concurrency is None else int(concurrency),
        "on_failure": said.get("on_failure", "abort"),
        "name": Again(name),
    }


def _told(state: str, error: BaseException) -> dict[str, str | None]:
    if isinstance(error, StepFailed):
        type_name, message = error.type_name, error.message
    else:
        cls = type(error)
        type_name, message = f"{cls.__module__}.{cls.__qualname__}", str(error)
    return {"state": state, "type": type_name, "message": message, "step": getattr(error, "step", None) or state}
