"""How a call that starts another run is ordered: what is stored of it, and what it may not ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery_saga.core import codec
from celery_saga.core.children import args_of_input
from celery_saga.core.orders import ChildSpec, StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.definition.asking import order
from celery_saga.errors import DefinitionError, RunCancelled

if TYPE_CHECKING:
    from celery_saga.definition.saga import Saga

__all__ = ["classes_of", "is_saga", "order_of", "require_saga"]


def is_saga(value: object) -> bool:
    """Whether it is a saga."""
    return callable(getattr(value, "new_run", None)) and hasattr(value, "start_options")


def require_saga(value: object, where: str) -> None:
    """Refuse what is no saga.

    Raises:
        DefinitionError: saying what to write; nothing was started.
    """
    if not is_saga(value):
        raise DefinitionError(
            f"{where} takes a saga, or saga.options(...), and then the arguments of its body, got {value!r}; nothing "
            "was started. For a task write run.step(task.si(...))."
        )


def order_of(
    saga: Saga[Any, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], where: str, limit_bytes: int
) -> tuple[Order, str]:
    """The order of a run of this saga, and the digest that a replay compares.

    `task_id` of the order is the id that a run has by its own key; None: its place tells.

    Raises:
        DefinitionError: an option that makes no sense there; nothing was started.
        InvalidPayload, PayloadTooLarge: the arguments do not fit the body, or cannot be stored; nothing was started.
    """
    given = saga.start_options
    _check(saga, where)
    new = saga.new_run(args, kwargs, limit_bytes=limit_bytes)
    spec = ChildSpec(
        version=new.version,
        input_digest=new.input_digest,
        run_text=new.spec_text,
        key=new.key,
        countdown_s=new.countdown_s,
        eta_text=None if new.eta is None else new.eta.isoformat(),
        deadline_s=new.deadline_s,
        priority=saga.settings.priority if given.priority is None else given.priority,
        lane=new.lane,
        tags=new.tags,
        queue=new.queue,
        is_detached=bool(given.detached),
    )
    made = order(StepKind.CHILD, args_text=args_of_input(new.input_text), spec=StepSpec(child=spec))
    has_own_id = spec.is_detached and new.key is not None
    return replace(made, task_id=new.run_id if has_own_id else None), codec.digest([new.input_digest])


def classes_of(saga: Saga[Any, Any]) -> tuple[type[BaseException], ...]:
    """The errors that a body sees as themselves when a run of this saga ends by them."""
    return (*saga.errors, RunCancelled)


def _check(saga: Saga[Any, Any], where: str) -> None:
    given = saga.start_options
    wrong = None
    if given.connection is not None:
        wrong = "connection= has no place in a body: the run is started in the engine's own transaction"
    elif given.if_exists not in (None, "return"):
        wrong = f"if_exists={given.if_exists!r} cannot be told from a body: the run is started after it"
    elif given.key is not None and not given.detached:
        wrong = "a child has its id from its parent, so key= goes with detached=True only"
    if wrong is not None:
        raise DefinitionError(f"{where}, saga {saga.name!r}: {wrong}; nothing was started. Leave the option out.")
