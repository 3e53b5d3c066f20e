"""What is read of a canvas, what is left out, and what is refused."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature
from hypothesis import given, settings

from celery_saga import DefinitionError, InvalidPayload, Retry, step
from celery_saga.core import codec
from celery_saga.core.orders import Call
from celery_saga.definition.canvas import from_plain, read_canvas, to_plain
from celery_saga.definition.canvas.refusals import CARRIED, LEFT_OUT, REFUSED
from celery_saga.definition.canvas.tree import Node, Parallel, Sequence, Task, bound, node_count
from celery_saga.definition.step import StepOptions
from tests.canvases.shapes import Shape, shapes, told, with_tasks

app = with_tasks(Celery("reading_canvases", set_as_current=False, backend="cache+memory://"))
app.close()
tell, note, sum_up = (app.tasks[f"canvas_shapes.{name}"] for name in ("tell", "note", "sum_up"))


def read(canvas: object) -> Node:
    return read_canvas(canvas, "durable()", "nothing was started")


def refused(canvas: object) -> list[str]:
    """What is listed as refused, a line each."""
    with pytest.raises(DefinitionError) as error:
        read(canvas)
    first, *listed = str(error.value).splitlines()
    assert first == "durable() cannot make this canvas durable; nothing was started."
    return [line.removeprefix("- ") for line in listed]


def test_all_that_is_refused_is_told_at_once_with_its_place_and_what_to_write() -> None:
    canvas = chain(
        tell.s(1).set(countdown=5),
        group(note.s().set(expires=60, eta="now"), chain(tell.s(), note.s()).on_error(sum_up.s())),
        sum_up.s().set(queue=7),
    )

    listed = refused(canvas)

    assert [line.partition(":")[0] for line in listed] == [
        "chain[0] (canvas_shapes.tell)",
        "chain[1].header[0] (canvas_shapes.note)",
        "chain[1].header[0] (canvas_shapes.note)",
        "chain[1].header[1]",
        "chain[1].body (canvas_shapes.sum_up)",
    ]
    for line, option in zip(listed[:-1], ("countdown", "expires", "eta", "link_error"), strict=True):
        assert line.endswith(f"the option {option!r} is not carried: {REFUSED[option]}")


@pytest.mark.parametrize("option", [*REFUSED, "never_heard_of"])
def test_an_option_that_would_be_lost_is_refused_by_its_name(option: str) -> None:
    value = ["x"] if option == "stamped_headers" else "x"

    (line,) = refused(tell.s(1).set(**{option: value}))

    assert f"the option {option!r} is not carried: " in line


@pytest.mark.parametrize("option", [*LEFT_OUT, "countdown", "link"])
def test_an_option_that_says_nothing_is_left_out(option: str) -> None:
    value = "x" if option in LEFT_OUT else [] if option == "link" else None

    assert read(tell.s(1).set(**{option: value})) == read(tell.s(1))


@pytest.mark.parametrize("option", CARRIED)
def test_an_option_of_the_message_is_carried(option: str) -> None:
    value = {"a": 1} if option == "headers" else 3 if option in {"priority", "time_limit", "soft_time_limit"} else "x"

    found = read(tell.s(1).set(**{option: value}))

    assert isinstance(found, Task)
    assert found.options == {option: value}


def test_options_of_a_group_go_to_all_of_a_chain_to_the_first_of_a_chord_to_header_and_body() -> None:
    inner = chain(tell.s(1), note.s()).set(queue="chain")
    canvas = group(chord([tell.s(2), inner], sum_up.s()).set(queue="chord"), note.s(3).set(queue="own", priority=1))

    def queues(node: Node) -> Any:
        return node.options.get("queue") if isinstance(node, Task) else [queues(part) for part in node.parts]

    assert queues(read(canvas)) == [[["chord", ["chord", None]], "chord"], "own"]
    assert queues(read(inner)) == ["chain", None]
    assert queues(read(canvas.set(queue="group"))) == [[["group", ["group", None]], "group"], "group"]


def test_a_canvas_that_celery_has_frozen_reads_as_it_did_before() -> None:
    canvas = chain(tell.s(1), group(note.s(1), chain(note.s(2), tell.s())), sum_up.s(), group(tell.s(), note.s()))
    before = read(canvas)

    canvas.freeze()

    assert read(canvas) == before


def test_a_body_that_hangs_on_a_task_outside_of_a_chord_is_refused() -> None:
    (line,) = refused(group(tell.s().set(chord=sum_up.s())))

    assert (
        line
        == "group[0] (canvas_shapes.tell): the option 'chord' is not carried: write the body with chord(header, body)"
    )


def test_its_json_reads_as_the_canvas() -> None:
    canvas = chain(tell.s(1, k=2), group(note.si(1), tell.map([1, 2])), sum_up.s().set(queue="slow"))

    text = json.dumps(canvas)

    assert read(json.loads(text)) == read(canvas)
    assert read(signature(json.loads(text), app=app)) == read(canvas)


def test_what_is_done_to_a_canvas_afterwards_has_no_effect() -> None:
    items = [1, 2]
    canvas = chain(tell.s(items), note.s())
    found = read(canvas)

    items.append(3)
    canvas.tasks[1].args = (9,)

    assert found == Sequence((Task("canvas_shapes.tell", ([1, 2],)), Task("canvas_shapes.note")))


def test_groups_in_groups_and_chains_in_chains_are_one() -> None:
    assert read(group(tell.s(), group(note.s(), group(tell.s())))) == Parallel(
        (Task("canvas_shapes.tell"), Task("canvas_shapes.note"), Task("canvas_shapes.tell"))
    )
    assert read(chain(chain(tell.s(), note.s()), chain(sum_up.s()))) == read(chain(tell.s(), note.s(), sum_up.s()))
    assert read(chain(chain(tell.s()))) == Task("canvas_shapes.tell")


def test_a_generator_is_read_as_a_list() -> None:
    assert read(group(tell.s(n) for n in range(3))) == read(group([tell.s(0), tell.s(1), tell.s(2)]))


def test_chunks_are_a_step_each() -> None:
    found = read(step(tell.chunks([(1,), (2,), (3,)], 2), undo=note.s()))

    assert isinstance(found, Parallel)
    assert [part.kwargs["it"] for part in found.parts if isinstance(part, Task)] == [[(1,), (2,)], [(3,)]]
    assert {part.task for part in found.parts if isinstance(part, Task)} == {"celery.starmap"}
    assert all(part.policies.undo is not None for part in found.parts if isinstance(part, Task))
    assert refused(tell.chunks([(1,)], 0)) == ["chunks: chunks of 0 items: give a whole number of at least 1"]


@pytest.mark.parametrize(
    ("canvas", "told"),
    [
        (tell, "there is no signature but the task 'canvas_shapes.tell': write tell.s(...)"),
        (told, "there is no signature but the function 'told': make it a Celery task and write .s(...)"),
        (None, "there is no signature but nothing"),
        (7, "there is no signature but int: write task.s(...)"),
        ({"no": "task"}, "there is no signature but dict: write task.s(...)"),
        (chain(), "it has no task"),
        (group([chain()]) | chain(), "the body of a chord has no task"),
        (chord([tell.s()]), "a chord without a body: write chord(header, body)"),
        ({"task": "x", "subtask_type": "novel"}, "a signature of the kind 'novel' is not known"),
        ({"task": "celery.group", "kwargs": {"tasks": 3}}, "there is no list of signatures but int: write task.s(...)"),
        (
            signature("celery.backend_cleanup", app=app),
            "Celery's own tasks are no steps: write a task that does the same",
        ),
        (signature("celery.map", kwargs={"task": 3, "it": [1]}, app=app), "what it maps is no task but int: write"),
    ],
)
def test_what_is_no_canvas_is_refused_with_the_reason(canvas: object, told: str) -> None:
    (line,) = refused(canvas)

    assert told in line


def test_an_argument_that_cannot_be_stored_is_an_invalid_payload_with_its_path() -> None:
    with pytest.raises(InvalidPayload, match=r"canvas_shapes\.note: args\[0\]\.a: ") as error:
        read(chain(tell.s(1), note.s({"a": object()})))

    assert error.value.path == "args[0].a"
    assert len(refused(group(tell.s().set(expires=1), note.s(object())))) == 2


def test_a_name_given_twice_in_a_chain_is_refused() -> None:
    canvas = chain(step(tell.s(), name="one"), note.s(), step(tell.s(), name="one"), step(tell.s(), name="note"))

    assert refused(canvas) == [
        f"canvas_shapes.tell: the name '{name}' is given to a step before it in the same chain too: give each its own "
        "name="
        for name in ("one", "note")
    ]
    assert read(group(step(tell.s(), name="one"), step(tell.s(), name="one"))) is not None


def test_a_pivot_is_a_step_that_no_other_goes_on_beside() -> None:
    pivot = step(tell.s(), pivot=True)

    assert read(chain(group(note.s(), note.s()), pivot, note.s())) is not None
    assert refused(chain(note.s(), group(note.s(), chain(note.s(), pivot)))) == [
        "canvas_shapes.tell: pivot=True is not for a member of a group or header, beside which others go on"
    ]


def test_policies_belong_to_tasks() -> None:
    options = step(tell.s(), undo=note.s()).options

    assert "step() gives policies to one task, not to a group" in refused(group(tell.s()).set(**options))[0]


# -- as it is stored ----------------------------------------------------------------------------------------------
@settings(max_examples=150, deadline=None)
@given(shapes)
def test_a_stored_canvas_is_the_canvas(shape: Shape) -> None:
    try:
        node = read(shape.build(app))
    except (DefinitionError, AttributeError):  # without a task; Celery cannot clone a chord without body
        return

    assert from_plain(codec.decode(codec.encode(to_plain(node)))) == node


def test_every_policy_of_a_step_is_stored_with_a_canvas_but_the_type_of_its_result() -> None:
    policies: dict[str, Any] = {
        "name": "paid",
        "saga": None,  # in a canvas it is refused
        "type": int,
        "undo": Call("shop.refund", "[[1], {}]", immutable=False, options={"queue": "slow"}),
        "undo_takes_none": False,
        "undo_retry": Retry(max_attempts=7, delay=2, on=[KeyError]),
        "undo_unknown": "skip",
        "retry": Retry(max_attempts=4, jitter=False, never_on=[ValueError]),
        "timeout_s": 9.0,
        "dispatch": "auto",
        "remote": True,
    }
    others = {x.name: True for x in fields(StepOptions) if x.name not in policies}
    sig = tell.s(1).set(celery_saga=StepOptions(**policies, **others), queue="fast")

    found = from_plain(codec.decode(codec.encode(to_plain(read(sig)))))

    assert isinstance(found, Task)
    assert found.options == {"queue": "fast"}
    kept = {x.name: getattr(found.policies, x.name) for x in fields(StepOptions)}
    assert kept == {**policies, **others, "type": None}


def test_a_canvas_of_a_later_version_is_left_as_it_is() -> None:
    with pytest.raises(InvalidPayload, match=r"the stored canvas has the format 99, and .* Upgrade the workers"):
        from_plain({"format": 99})


def test_a_long_and_deep_canvas_is_stored_once_not_over_and_over() -> None:
    canvas: Any = tell.s(1)
    for _ in range(40):
        canvas = canvas | group(note.s(), tell.s()) | sum_up.s()

    node = read(canvas)

    assert node_count(node) == 121
    assert len(codec.encode(to_plain(node))) < 121 * 60


def test_arguments_of_the_whole_go_to_first_tasks_that_take_some() -> None:
    node = read(chord([tell.s(1), note.si(2), chain(tell.s(3), note.s())], sum_up.s()))

    def of_first(found: Node) -> list[Any]:
        assert isinstance(found, Sequence)
        assert isinstance(found.parts[0], Parallel)
        firsts = [part.parts[0] if isinstance(part, Sequence) else part for part in found.parts[0].parts]
        return [(part.args, part.kwargs) for part in firsts if isinstance(part, Task)]

    assert of_first(bound(node, (9,), {"k": 8})) == [((9, 1), {"k": 8}), ((2,), {}), ((9, 3), {"k": 8})]
    assert of_first(bound(bound(node, (9,), {}, immutable=True), (7,), {})) == [((9, 1), {}), ((2,), {}), ((9, 3), {})]
