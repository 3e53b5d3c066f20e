"""Refuses to send tasks from inside a body, where every replay would send them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP

from celery_saga.client.purity import forbid
from celery_saga.definition.calls import OPTION

__all__ = ["SagaAMQP", "forbid_sending", "guard"]

_Base: Any = AMQP

_CLASS = "celery_saga.runtime.purity:SagaAMQP"
_DEFAULT = "celery.app.amqp:AMQP"


def forbid_sending(name: str) -> None:
    """Refuse to send this task inside a body, and name what to write.

    Raises:
        DefinitionError: the caller runs inside a body; nothing was sent.
    """
    last = name.rpartition(".")[2]
    forbid(f"sending {name}", f"run.child({last}, ...)" if name.startswith("saga.") else f"run.step({last}.si(...))")


def _guarded(send: Callable[..., Any]) -> Callable[..., Any]:
    def send_task_message(producer: Any, name: str, message: Any, *args: Any, **kwargs: Any) -> Any:
        forbid_sending(name)
        kwargs.pop(OPTION, None)  # of a signature made by step() and sent outside a saga
        return send(producer, name, message, *args, **kwargs)

    return send_task_message


class SagaAMQP(_Base):  # type: ignore[misc]
    """Celery's, with a guard in front of its one way out."""

    def _create_task_sender(self) -> Callable[..., Any]:
        sender: Callable[..., Any] = super()._create_task_sender()
        return _guarded(sender)


def guard(app: Celery) -> None:
    """Put the guard on an app's way to the broker, without loading its configuration."""
    cls: Any = app.amqp_cls
    made = app.__dict__.get("amqp")
    if cls in {_DEFAULT, _CLASS} or cls is AMQP:
        app.amqp_cls = _CLASS
        if made is not None and type(made) is AMQP:
            made.__class__ = SagaAMQP
    elif made is None:
        made = app.amqp  # a class of the project's own, whose instance is wrapped instead
    if made is not None:
        sender = made.__dict__.get("send_task_message") if isinstance(made, SagaAMQP) else made.send_task_message
        if sender is not None and sender.__qualname__ != "_guarded.<locals>.send_task_message":
            made.__dict__["send_task_message"] = _guarded(sender)
