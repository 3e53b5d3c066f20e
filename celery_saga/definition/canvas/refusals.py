"""What a durable canvas carries of Celery's options, what it leaves out, and what it refuses and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery_saga.definition.calls import OPTION, options_of
from celery_saga.errors import DefinitionError

__all__ = ["CARRIED", "LEFT_OUT", "REFUSED", "carried", "problems"]

CARRIED = (
    *("queue", "exchange", "routing_key", "priority", "time_limit", "soft_time_limit"),
    *("serializer", "compression", "headers"),
)
"""Options that go with the messages of the steps."""

LEFT_OUT = (
    *("task_id", "group_id", "group_index", "root_id", "parent_id", "reply_to", "chord_size", "add_to_parent"),
    *("ignore_result", "shadow", "route_name", "replaced_task_nesting", "interval"),
)
"""Options that mean nothing here: ids that Celery gave while freezing, and what concerns its own bookkeeping."""

REFUSED: Mapping[str, str] = {
    "link": "put what follows into the chain, or into the chord's body",
    "link_error": "give the steps an undo=, or look at the error of the run",
    "countdown": "start the whole canvas later with apply_async(countdown=...), or write a saga with run.sleep()",
    "eta": "start the whole canvas later with apply_async(eta=...), or write a saga with run.sleep_until()",
    "expires": "give the step a timeout= with step(...)",
    "retry": "give the step a retry=Retry(...) with step(...)",
    "retry_policy": "give the step a retry=Retry(...) with step(...)",
    "max_retries": "give the step a retry=Retry(...) with step(...)",
    "chord": "write the body with chord(header, body)",
    "chain": "write what follows with chain(...)",
    "stamped_headers": "stamps do not go along: give what the task needs as an argument, or set headers=",
    "link_chord": "write the body with chord(header, body)",
}
"""Options that would be lost silently, each with what to write instead."""


def carried(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that go with messages."""
    return {name: value for name, value in options.items() if name in CARRIED and value is not None}


def problems(options: Mapping[str, Any], *, task: str, of: str, in_header: bool) -> Iterator[str]:
    """Why options of one signature are refused, each as a sentence without full stop.

    Args:
        task: name of the signature's task.
        of: how the signature is called, like `chain`; empty for one task.
        in_header: it is in the header of a chord, where freezing leaves the body in the option `chord`.
    """
    stamps = options.get("stamped_headers") or ()
    for name, value in options.items():
        if value is None or name in CARRIED or name in LEFT_OUT or name in stamps:
            continue
        if (name == "chord" and in_header) or (name in {"link", "link_error", "stamped_headers"} and not value):
            continue
        if name == OPTION:
            if getattr(value, "saga", None) is not None:
                yield "a canvas holds tasks, not sagas: write a saga that calls run.child() for it"
            elif of:
                yield f"step() gives policies to one task, not to a {of}: give them to its tasks"
            continue
        if name == "max_retries" and of == "chord":
            continue  # of Celery's polling for the end of the header
        yield f"the option {name!r} is not carried: {REFUSED.get(name, 'leave it out')}"
    given = carried(options)
    try:
        options_of({"task": task, "options": given}, "a canvas")
    except DefinitionError as error:
        yield str(error).removeprefix("a canvas: ").removesuffix("; nothing was ordered.")
