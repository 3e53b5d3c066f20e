"""Turns the steps of a graph into signatures of tasks by name, with the policies that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery_saga.core.retry import Retry
from celery_saga.definition.calls import OPTION
from celery_saga.definition.graph import paths
from celery_saga.definition.graph.model import State
from celery_saga.definition.names import Again
from celery_saga.definition.step import options

__all__ = ["NamedRetry", "TaskCall", "arguments", "signature"]


class TaskCall(dict[str, Any]):
    """A Celery signature of a task by name; the task need not be known in this process."""

    def __init__(
        self,
        task: str,
        args: list[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            task=task,
            args=args,
            kwargs=dict(kwargs or {}),
            options=dict(options or {}),
            subtask_type=None,
            immutable=immutable,
        )

    def clone(self) -> TaskCall:
        """A copy whose options can be changed."""
        return TaskCall(
            self["task"], list(self["args"]), self["kwargs"], immutable=self["immutable"], options=self["options"]
        )


class NamedRetry(Retry):
    """A retry policy whose classes are names, since a graph is data and imports nothing."""

    __slots__ = ("_never_on_names", "_on_names")

    def __init__(self, policy: Mapping[str, Any]) -> None:
        given: dict[str, Any] = {}
        if "max_attempts" in policy:
            given["max_attempts"] = int(policy["max_attempts"])
        for word, name in (("delay_s", "delay"), ("factor", "factor"), ("max_delay_s", "max_delay")):
            if word in policy:
                given[name] = policy[word]
        super().__init__(**given, jitter=policy.get("jitter", True))
        self._on_names = None if "on" not in policy else [_full(name) for name in policy["on"]]
        self._never_on_names = [_full(name) for name in policy.get("never_on", ())]

    def to_plain(self) -> dict[str, Any]:
        """See `Retry.to_plain`."""
        return {**super().to_plain(), "on": self._on_names, "never_on": self._never_on_names}


def arguments(state: State, known: Mapping[str, Any], first: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments of a step.

    Args:
        known: what its paths may begin at.
        first: the positional ones of a step that names no arguments.
    Raises:
        Missing: nothing stands at one of its paths.
    """
    given = state.get("args", [] if "kwargs" in state else None)
    args = first if given is None else paths.resolve(given, known)
    return args, paths.resolve(state.get("kwargs", {}), known)


def signature(
    task: str, name: str, state: State, args: list[Any], kwargs: Mapping[str, Any], known: Mapping[str, Any]
) -> TaskCall:
    """The signature of a step of a graph, with the policies that stand in its state.

    Args:
        name: its key, which may come again; a part of a join has another.
    Raises:
        Missing: nothing stands at a path of its undo.
    """
    policies = options(
        f"state {name!r}",
        name=Again(name),
        # Plain values on every worker, whether or not it knows the task and what that returns.
        type=Any,
        undo=None if "undo" not in state else _undo(state["undo"], known),
        undo_retry=None if "undo_retry" not in state else NamedRetry(state["undo_retry"]),
        undo_unknown=state.get("undo_unknown"),
        retry=None if "retry" not in state else NamedRetry(state["retry"]),
        timeout=state.get("timeout_s"),
    )
    return TaskCall(task, args, kwargs, options={**_routed(state), OPTION: policies})


def _undo(undo: str | Mapping[str, Any], known: Mapping[str, Any]) -> TaskCall:
    if isinstance(undo, str):
        return TaskCall(undo, [], immutable=False)
    args, kwargs = arguments(undo, known, [])
    is_first = "args" not in undo and "kwargs" not in undo
    return TaskCall(undo["step"], args, kwargs, immutable=not is_first, options=_routed(undo))


def _routed(state: State) -> dict[str, Any]:
    return {"queue": state["queue"]} if "queue" in state else {}


def _full(name: str) -> str:
    return name if "." in name else f"builtins.{name}"
