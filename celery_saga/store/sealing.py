"""What a codec gives is checked before any database sees it: errors name the codec, and never a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_saga.errors import DefinitionError, InvalidPayload, SagaError

if TYPE_CHECKING:
    from celery_saga.store.vault import Codec

__all__ = ["sealed"]


def sealed(codec: Codec, text: str) -> str:
    """What the codec makes of a text.

    Raises:
        SagaError: of the codec's own, as it is.
        InvalidPayload: the codec raised something else.
        DefinitionError: it gave no text, or one that no database can store. In every case nothing was written.
    """
    try:
        given: object = codec.encode(text)
    except SagaError:
        raise
    except Exception as error:
        raise InvalidPayload(
            f"saga_codec.encode() failed ({type(error).__name__}); nothing was written. A codec that cannot seal for a "
            "while raises StoreUnavailable."
        ) from error
    if isinstance(given, str) and "\0" not in given and (given.isascii() or _is_encodable(given)):
        return given
    what = "a text with NUL or a lone surrogate" if isinstance(given, str) else type(given).__name__
    raise DefinitionError(
        f"saga_codec.encode() must give a text that any database can store, got {what}; nothing was written."
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
