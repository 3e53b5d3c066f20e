"""Tokens that stand for one signal to one run: signed texts, of which each can be redeemed once.

Theory of operation. A token names its run, the generation that made it, the signal and an id of its own. The id is
that of the signal which redeeming sends, and the same signal cannot be sent twice: that makes it one-shot. The body's
record of the token says when it expires, and which token of a name is the last: that revokes the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

from celery_saga.core import codec
from celery_saga.core.masking import PREFIX
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.storable import is_storable
from celery_saga.engine.world import World
from celery_saga.errors import DefinitionError, InvalidToken, SignalDuplicate, SignalExpired

_SALT = "celery_saga.token.1"
_MAX = 255  # as the columns of names; a run's id is shorter, and one that is not belongs to no run
_MISSING = (
    "{what} needs saga_secret_keys, which is not set; nothing was done. Set it in the Celery configuration, the same "
    "for all workers and wherever tokens are redeemed: a list of long random texts; the first signs, all are accepted. "
    "`python -c 'import secrets; print(secrets.token_urlsafe(32))'` makes one."
)


@dataclass(frozen=True, slots=True)
class Token:
    """What a token says: the signal `signal` of run `run_id`, once. `generation`: that made it; `id`: its own."""

    run_id: str
    generation: int
    signal: str
    id: str


def _serializer(keys: Sequence[str], what: str) -> URLSafeSerializer:
    if not keys:
        raise DefinitionError(_MISSING.format(what=what))
    options = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
    # There the last key of a list signs.
    return URLSafeSerializer(list(reversed(keys)), salt=_SALT, signer_kwargs=options)


def seal(keys: Sequence[str], token: Token, what: str) -> str:
    """The text of a token, of characters that can stand in a URL.

    Args:
        keys: the first signs.
        what: the call that makes it, for errors.
    Raises:
        DefinitionError: there is no key; nothing was made.
    """
    text = _serializer(keys, what).dumps([token.run_id, token.generation, token.signal, token.id])
    return PREFIX + (text.decode() if isinstance(text, bytes) else text)


def unseal(keys: Sequence[str], text: object, what: str) -> Token:
    """What a text says that one of the keys has signed.

    Raises:
        InvalidToken: none has, or it says something else; the error does not repeat the text.
        DefinitionError: there is no key.
    """
    serializer = _serializer(keys, what)
    try:
        signed = text.removeprefix(PREFIX) if isinstance(text, str) and text.startswith(PREFIX) else ""
        run_id, generation, signal, token_id = serializer.loads(signed)
        _check(run_id, generation, signal, token_id)
    except (BadData, TypeError, ValueError, UnicodeError):
        raise InvalidToken(
            f"{what}: this is no token, or none that a key in saga_secret_keys has signed; nothing was sent"
        ) from None
    return Token(run_id, generation, signal, token_id)


def _check(run_id: object, generation: object, signal: object, token_id: object) -> None:
    """Signed by a key of ours, and not by us: the key is used for something else too."""
    names = (run_id, signal, token_id)
    if type(generation) is not int or not all(isinstance(x, str) and len(x) <= _MAX and is_storable(x) for x in names):
        raise ValueError("of another shape")


def task_of(signal: str) -> str:
    """What the record of a token has as its task."""
    return f"!token/{signal}"


def recorded(text: str, token_id: str, expires_at: datetime | None) -> str:
    """What the record of a token holds, as its arguments."""
    return codec.encode([[text], {"id": token_id, "expires_at": expires_at}])


def text_of(args_text: str) -> str:
    """The token of a record."""
    text: str = codec.decode(args_text)[0][0]
    return text


def redeemable(world: World, keys: Sequence[str], text: object, what: str) -> Token:
    """What a token says, where it may be redeemed now.

    Raises:
        InvalidToken: as `unseal`; or its run is gone or has left it behind; or a later token has revoked it.
        SignalDuplicate: it was redeemed before.
        SignalExpired: its time is over. In every case nothing was written.
        DefinitionError: there is no key.
    """
    token = unseal(keys, text, what)
    name = token.signal
    if any(x.name == name and x.signal_id == token.id for x in world.store.signals(token.run_id)):
        raise SignalDuplicate(
            f"run {token.run_id!r}: this token for signal {name!r} was redeemed before; nothing was written",
            signal=name,
        )
    made = [x for x in world.store.steps(token.run_id, all_generations=False) if _is_of(x, name)]
    last = max(made, key=lambda x: x.seq or 0, default=None)
    holds: dict[str, Any] = {} if last is None else codec.decode(last.args_text)[1]
    if last is None or holds["id"] != token.id or last.born != token.generation:
        why = "a later one has revoked it" if last is not None else "the run has begun again, or is there no more"
        raise InvalidToken(f"{what}: this token for signal {name!r} does not count any more: {why}; nothing was sent")
    if holds["expires_at"] is not None and holds["expires_at"] <= world.store.now():
        raise SignalExpired(
            f"run {token.run_id!r}: this token for signal {name!r} has expired at {holds['expires_at'].isoformat()}; "
            "nothing was sent",
            signal=name,
        )
    return token


def _is_of(step: StepRecord, signal: str) -> bool:
    return step.kind is StepKind.RECORD and step.task_id is None and step.task == task_of(signal)
