"""Good graphs that use everything, and bad ones with what is to be found in them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

END = {"end": True}


def graph(states: Mapping[str, Any], start: str | None = None, **others: Any) -> dict[str, Any]:
    """A graph that begins with the first state."""
    begin = next(iter(states)) if start is None else start
    return {"name": "corpus", "version": 1, "start": begin, "states": dict(states), **others}


def step(ok: str = "done", **others: Any) -> dict[str, Any]:
    """A step that goes on to a state."""
    on = {"ok": ok, **others.pop("on", {})}
    return {"step": "shop.charge", **others, "on": on}


GOOD: dict[str, dict[str, Any]] = {
    "one step": graph({"send": step(), "done": END}),
    "everything of a graph": graph(
        {"done": {**END, "output": {"ok": True}, "description": "over"}},
        deadline_s=0.5,
        on_failure="suspend",
        description="does nothing",
        **{"$schema": "graph.schema.json"},
    ),
    "everything of a step": graph(
        {
            "charge": step(
                args=["$.input.order.id", {"deep": ["$.input.lines[0].sku"]}, 5, None, "$$5"],
                kwargs={"note": "hello"},
                undo={"step": "shop.refund", "args": ["$.input.order.id"], "kwargs": {"all": True}, "queue": "slow"},
                undo_retry={"max_attempts": 5},
                undo_unknown="skip",
                retry={
                    "max_attempts": 3,
                    "delay_s": 0,
                    "factor": 1.5,
                    "max_delay_s": 60,
                    "jitter": False,
                    "on": ["shop.errors.GatewayTimeout", "TimeoutError"],
                    "never_on": [],
                },
                timeout_s=30,
                queue="money",
                description="takes the money",
                on={"fail": "lost", "timeout": "lost", "cancel": "done"},
            ),
            "done": {**END, "output": "$.charge"},
            "lost": {"end": "failed"},
        }
    ),
    "a choice": graph(
        {
            "how": {
                "choice": [
                    {"path": "$.input.cents", "gt": 0, "lt": 100, "to": "done"},
                    {"path": "$.input.currency", "in": ["EUR", "CHF"], "to": "done"},
                    {"path": "$.input.express", "eq": True, "to": "done"},
                    {"path": "$.input.express", "eq": "$.input.other", "to": "done"},
                    {"else": "lost"},
                ]
            },
            "done": END,
            "lost": {"end": "failed"},
        }
    ),
    "waits": graph(
        {
            "seconds": {"wait": 0, "on": {"ok": "instant", "cancel": "done"}},
            "instant": {"wait": "2026-11-29T12:00:00+01:00", "on": {"ok": "path"}},
            "path": {"wait": "$.input.at", "on": {"ok": "ask"}},
            "ask": {
                "signal": "approve",
                "timeout_s": 604800,
                "on": {"signal": "done", "timeout": "lost", "fail": "lost", "cancel": "lost"},
            },
            "done": {**END, "output": {"by": "$.ask.by"}},
            "lost": {"end": "failed"},
        }
    ),
    "a loop with a way out": graph(
        {
            "try": step("enough", on={"fail": "pause"}),
            "pause": {"wait": 1, "on": {"ok": "try"}},
            "enough": {"choice": [{"path": "$.try.done", "eq": True, "to": "done"}, {"else": "try"}]},
            "done": END,
        }
    ),
    "the error": graph({"charge": step(on={"fail": "tell"}), "tell": step(args=["$.error.message"]), "done": END}),
    "a map": graph(
        {
            "double": {
                "map": {
                    "task": "m.double",
                    "items": "$.input.items",
                    "args": ["$.input.id"],
                    "kwargs": {"times": 2},
                    "concurrency": 2,
                    "on_failure": "collect",
                },
                "undo": "m.halve",
                "retry": {},
                "timeout_s": 1.5,
                "on": {"ok": "done", "fail": "done", "cancel": "done"},
            },
            "done": {**END, "output": "$.double.results"},
        }
    ),
    "branches": graph(
        {
            "first": step("both"),
            "both": {
                "parallel": {
                    "branches": {
                        "a": {"step": "p.a", "args": ["$.first.id"], "undo": "p.undo"},
                        "b": {
                            "start": "one",
                            "states": {
                                "one": step("two", args=["$.first", "$.input"]),
                                "two": {"wait": 1, "on": {"ok": "end_of_b"}},
                                "end_of_b": {**END, "output": "$.one"},
                            },
                        },
                    },
                    "on_failure": "abort",
                    "concurrency": 1,
                },
                "on": {"ok": "done", "fail": "done"},
            },
            "done": {**END, "output": ["$.both.a", "$.both.b.x"]},
        }
    ),
}


@dataclass(frozen=True)
class Bad:
    """A bad graph.

    Args:
        told: what one of its faults begins with, and what that has in it.
        by_schema: the published schema finds it too.
    """

    graph: Any
    told: tuple[str, str]
    by_schema: bool


def _changed(name: str, *path: Any, to: Any) -> dict[str, Any]:
    """A good graph with another value at one place; Ellipsis removes the entry."""
    whole = copy.deepcopy(GOOD[name])
    place: Any = whole
    for part in path[:-1]:
        place = place[part]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return whole


_STEP = ("everything of a step", "states", "charge")

BAD: dict[str, Bad] = {
    # -- what a schema can say
    "no object": Bad([], ("the graph", "a saga as data"), True),
    "no name": Bad(_changed("one step", "name", to=...), ("the graph", "has no 'name'"), True),
    "empty name": Bad(_changed("one step", "name", to=" "), ("name", "text of 1 to 200"), True),
    "version 0": Bad(_changed("one step", "version", to=0), ("version", "whole number from 1"), True),
    "version true": Bad(_changed("one step", "version", to=True), ("version", "not True"), True),
    "unknown key": Bad(_changed("one step", "stats", to={}), ("the graph", "unknown key 'stats'"), True),
    "no states": Bad(_changed("one step", "states", to={}), ("states", "states by name"), True),
    "a bad state name": Bad(graph({"a b": step(), "done": END}), ("the name states.a b", "letters, digits"), True),
    "a taken state name": Bad(graph({"input": step(), "done": END}), ("the name states.input", "not input"), True),
    "no kind": Bad(graph({"x": {"on": {"ok": "done"}}, "done": END}), ("states.x", "of no kind"), True),
    "two kinds": Bad(graph({"x": step(wait=5), "done": END}), ("states.x", "2 kinds at once (step, wait)"), True),
    "unknown key of a state": Bad(_changed(*_STEP, "delay", to=1), ("states.charge", "unknown key 'delay'"), True),
    "unknown transition": Bad(_changed(*_STEP, "on", "done", to="done"), ("states.charge.on", "'done'"), True),
    "no ok": Bad(_changed(*_STEP, "on", "ok", to=...), ("states.charge.on", "has no 'ok'"), True),
    "args that are no list": Bad(_changed(*_STEP, "args", to="$.input"), ("states.charge.args", "positional"), True),
    "time-out 0": Bad(_changed(*_STEP, "timeout_s", to=0), ("states.charge.timeout_s", "seconds above 0"), True),
    "a policy without undo": Bad(
        _changed(*_STEP, "undo", to=...), ("states.charge", "'undo_retry' without 'undo'"), True
    ),
    "half an attempt": Bad(
        _changed(*_STEP, "retry", "max_attempts", to=1.5), ("states.charge.retry.max_attempts", "from 1"), True
    ),
    "no error name": Bad(_changed(*_STEP, "retry", "on", to=["a b"]), ("states.charge.retry.on[0]", "class"), True),
    "an undo that is a number": Bad(_changed(*_STEP, "undo", to=5), ("states.charge.undo", "a task that gets"), True),
    "end false": Bad(graph({"done": {"end": False}}), ("states.done.end", 'true or "failed"'), True),
    "end 1": Bad(graph({"done": {"end": 1}}), ("states.done.end", 'true or "failed"'), True),
    "a choice without rules": Bad(
        _changed("a choice", "states", "how", "choice", to=[]), ("states.how.choice", "rules in the order"), True
    ),
    "a rule without comparison": Bad(
        _changed("a choice", "states", "how", "choice", 0, to={"path": "$.input.x", "to": "done"}),
        ("states.how.choice[0]", "all its comparisons"),
        True,
    ),
    "a rule that is none": Bad(
        _changed("a choice", "states", "how", "choice", 0, to={"eq": 1, "to": "done"}),
        ("states.how.choice[0]", "of no kind"),
        True,
    ),
    "less than true": Bad(
        _changed("a choice", "states", "how", "choice", 0, "lt", to=True), ("states.how.choice[0].lt", "less"), True
    ),
    "a choice of no path": Bad(
        _changed("a choice", "states", "how", "choice", 0, "path", to="input"),
        ("states.how.choice[0].path", "$."),
        True,
    ),
    "a wait for a word": Bad(
        _changed("waits", "states", "seconds", "wait", to="soon"), ("states.seconds.wait", "an instant like"), True
    ),
    "an instant without zone": Bad(
        _changed("waits", "states", "instant", "wait", to="2026-11-29T12:00:00"), ("states.instant.wait", "Z"), True
    ),
    "items that are no path": Bad(
        _changed("a map", "states", "double", "map", "items", to=[1, 2]), ("states.double.map.items", "list"), True
    ),
    "concurrency 0": Bad(
        _changed("a map", "states", "double", "map", "concurrency", to=0), ("states.double.map.concurrency", "1"), True
    ),
    "a branch of no kind": Bad(
        _changed("branches", "states", "both", "parallel", "branches", "a", to={}),
        ("states.both.parallel.branches.a", "of no kind"),
        True,
    ),
    "a branch of a map": Bad(
        _changed("branches", "states", "both", "parallel", "branches", "b", "states", "one", to={"map": 1}),
        ("states.both.parallel.branches.b.states.one", "has no 'on'"),
        True,
    ),
    # -- what it cannot
    "no start": Bad(_changed("one step", "start", to="sent"), ("start", "is 'send' meant?"), False),
    "no target": Bad(
        _changed("one step", "states", "send", "on", "ok", to="donne"), ("states.send.on.ok", "is 'done' meant?"), False
    ),
    "unreached": Bad(
        graph({"a": step(), "done": END, "b": step()}), ("states.b", "is not reached from the start"), False
    ),
    "no end": Bad(graph({"a": step("a")}), ("states", "has no end"), False),
    "no way to the end": Bad(
        graph({"a": step("b", on={"fail": "done"}), "b": step("c"), "c": step("b"), "done": END}),
        ("states", "has no way to an end from b, c"),
        False,
    ),
    "an end by cancel alone": Bad(
        graph({"a": step("a", on={"cancel": "done"}), "done": END}), ("states", "has no way to an end from a"), False
    ),
    "a circle of choices": Bad(
        graph(
            {
                "a": {"choice": [{"path": "$.input", "eq": 1, "to": "done"}, {"else": "b"}]},
                "b": {"choice": [{"else": "a"}]},
                "done": END,
            }
        ),
        ("states", "a circle of nothing but choices (a, b)"),
        False,
    ),
    "no else": Bad(
        graph({"a": {"choice": [{"path": "$.input", "eq": 1, "to": "done"}]}, "done": END}),
        ("states.a.choice[0]", "must be the else"),
        False,
    ),
    "two elses": Bad(
        graph({"a": {"choice": [{"else": "done"}, {"else": "done"}]}, "done": END}),
        ("states.a.choice[0]", "must be the last rule"),
        False,
    ),
    "a time-out that never comes": Bad(
        _changed(*_STEP, "timeout_s", to=...), ("states.charge.on.timeout", "has no timeout_s"), False
    ),
    "a cancel that goes on": Bad(
        graph({"a": step(on={"cancel": "b"}), "b": step(), "done": END}), ("states.a.on.cancel", "a cancel ends"), False
    ),
    "no day": Bad(
        _changed("waits", "states", "instant", "wait", to="2026-02-30T12:00:00Z"),
        ("states.instant.wait", "calendar"),
        False,
    ),
    "no builtin error": Bad(
        _changed(*_STEP, "retry", "on", to=["GatewayTimeout"]), ("states.charge.retry.on[0]", "full name"), False
    ),
    "an output of a failure": Bad(
        graph({"lost": {"end": "failed", "output": 1}}), ("states.lost.output", "an error and no output"), False
    ),
    "a bad path": Bad(_changed(*_STEP, "args", to=["$5"]), ("states.charge.args[0]", "no path"), False),
    "an expression": Bad(_changed(*_STEP, "args", to=["$.input.a + 1"]), ("states.charge.args[0]", "no path"), False),
    "a path to nowhere": Bad(
        _changed(*_STEP, "args", to=["$.chrge.id"]), ("states.charge.args[0]", "no state 'chrge'"), False
    ),
    "a path to itself": Bad(
        _changed(*_STEP, "undo", "args", to=["$.charge"]), ("states.charge.undo.args[0]", "own output"), False
    ),
    "a path to what comes later": Bad(
        graph({"a": step("b", args=["$.b.id"]), "b": step(), "done": END}),
        ("states.a.args[0]", "no way to 'a' passes the state 'b'"),
        False,
    ),
    "a path to what has failed": Bad(
        graph({"a": step(on={"fail": "b"}), "b": step(args=["$.a.id"]), "done": END}),
        ("states.b.args[0]", "no way to 'b' passes the state 'a'"),
        False,
    ),
    "a path to a wait": Bad(
        graph({"a": {"wait": 1, "on": {"ok": "b"}}, "b": step(args=["$.a"]), "done": END}),
        ("states.b.args[0]", "no way to 'b' passes the state 'a'"),
        False,
    ),
    "a path into a branch": Bad(
        _changed("branches", "states", "done", "output", to="$.one"), ("states.done.output", "no state 'one'"), False
    ),
    "an error that cannot be": Bad(
        _changed(*_STEP, "args", to=["$.error.message"]), ("states.charge.args[0]", "there is no error"), False
    ),
    "an entry that a collected map does not have": Bad(
        _changed("a map", "states", "done", "output", to="$.double[0]"),
        ("states.done.output", "it has succeeded, failed, results"),
        False,
    ),
    "a branch that is not there": Bad(
        _changed("branches", "states", "done", "output", to="$.both.c"), ("states.done.output", "it has a, b"), False
    ),
    "an error's entry that is not there": Bad(
        _changed("the error", "states", "tell", "args", to=["$.error.text"]),
        ("states.tell.args[0]", "it has state, type, message, step"),
        False,
    ),
    "a path of a map to nowhere": Bad(
        _changed("a map", "states", "double", "map", "args", to=["$.double"]),
        ("states.double.map.args[0]", "own output"),
        False,
    ),
    "a name in two branches": Bad(
        _changed(
            "branches", "states", "both", "parallel", "branches", "c", to={"start": "first", "states": {"first": END}}
        ),
        ("states.both.parallel.branches.c.states.first", "has the name 'first'"),
        False,
    ),
    "a branch that leaves": Bad(
        _changed("branches", "states", "both", "parallel", "branches", "b", "states", "two", "on", "ok", to="done"),
        ("states.both.parallel.branches.b.states.two.on.ok", "names the state 'done'"),
        False,
    ),
    "a branch without end": Bad(
        _changed(
            "branches",
            "states",
            "both",
            "parallel",
            "branches",
            "b",
            to={"start": "one", "states": {"one": step("one")}},
        ),
        ("states.both.parallel.branches.b.states", "has no end"),
        False,
    ),
}
