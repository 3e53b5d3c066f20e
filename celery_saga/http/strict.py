"""Reads what was sent, and refuses what does not mean one thing: bodies, queries and headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from celery_saga.core.strict_json import AmbiguousJson, read_json
from celery_saga.http.messages import Request
from celery_saga.http.problems import Problem, invalid

__all__ = ["FORM", "JSON", "body_of", "body_text", "form_of", "idempotency_key", "json_of", "media_type", "query_of"]

M = TypeVar("M", bound=BaseModel)

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

_SHOWN_ERRORS = 3
_MAX_FIELDS = 64
_MAX_DIGITS = 18
_MAX_FORM_BYTES = 64 * 1024
_QUOTED = re.compile(r'"([\x20-\x7e]*)"')
_KEY = re.compile(r"[\x20-\x7e]{1,200}")


def media_type(request: Request) -> str:
    """The media type of the body, in lower case and without parameters; "" where none is told.

    Raises:
        Problem: it is in another encoding than UTF-8, or compressed.
    """
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", parameters, re.IGNORECASE)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8"}:
        raise _unsupported(f"the body is in {charset[1][:40]!r}; send UTF-8")
    if request.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise _unsupported("the body is compressed; send it as it is")
    return kind.strip().lower()


def body_text(request: Request, limit_bytes: int) -> str:
    """The body, of which never more than the limit is read.

    Raises:
        Problem: it is longer, or no UTF-8.
    """
    length = request.headers.get("content-length", "").strip()
    if length and not re.fullmatch(r"[0-9]+", length):
        raise invalid("the header Content-Length is no number; nothing was read.")
    if len(length) > _MAX_DIGITS or int(length or "0") > limit_bytes:
        raise _too_large(limit_bytes)
    data = request.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise invalid(f"the body is no UTF-8, at byte {error.start}; nothing was done.", path="body") from None


def body_of(request: Request, model: type[M], limit_bytes: int) -> M:
    """The body as the model says.

    Raises:
        Problem: it is no JSON, too long, or does not fit the model; nothing was done.
    """
    # Required of an empty body too: a page of another site cannot send it without asking first, which a form can.
    if media_type(request) != JSON:
        raise _unsupported(f"the body must be {JSON}")
    value = json_of(body_text(request, limit_bytes) or "{}")
    if not isinstance(value, dict):
        raise invalid("the body must be a JSON object; nothing was done.", path="body")
    return _checked(model, value, "body")


def json_of(text: str, what: str = "body") -> Any:
    """The value of a JSON text.

    Args:
        what: how the problem calls it.
    Raises:
        Problem: it is no JSON, nests too deep, names a member twice, or holds NaN or half of a surrogate pair.
    """
    try:
        return read_json(text)
    except AmbiguousJson as error:
        raise invalid(f"the {what} {error}; nothing was done.", path=what) from None


def query_of(request: Request, model: type[M]) -> M:
    """The query as the model says; a field that is a list may be there several times, others once.

    Raises:
        Problem: it has something else, or a value that does not fit.
    """
    several = {name for name, field in model.model_fields.items() if list in _kinds(field.annotation)}
    values: dict[str, Any] = {}
    for name, value in _pairs(request.query, "query", _MAX_FIELDS):
        if name in several:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise invalid(f"the query has {name[:40]!r} twice; nothing was done.", path=f"query.{name[:40]}")
        else:
            values[name] = value
    return _checked(model, values, "query")


def form_of(request: Request) -> dict[str, str]:
    """The fields of a form.

    Raises:
        Problem: it is too long, cannot be read, or has a field twice.
    """
    found: dict[str, str] = {}
    for name, value in _pairs(body_text(request, _MAX_FORM_BYTES), "form", _MAX_FIELDS):
        if name in found:
            raise invalid(f"the form has {name[:40]!r} twice; nothing was done.", path=f"form.{name[:40]}")
        found[name] = value
    return found


def idempotency_key(request: Request) -> str | None:
    """The header `Idempotency-Key`, with or without quotes; None where it is not sent.

    Raises:
        Problem: it is empty, longer than 200 characters or not of printable ASCII.
    """
    said = request.headers.get("idempotency-key")
    if said is None:
        return None
    quoted = _QUOTED.fullmatch(said.strip())
    key = (quoted[1] if quoted else said).strip()
    if not _KEY.fullmatch(key):
        raise invalid("the header Idempotency-Key takes 1 to 200 printable ASCII characters; nothing was done.")
    return key


def _pairs(text: str, what: str, most: int) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError:
        raise invalid(f"the {what} cannot be read: it is no UTF-8 or has too many fields.", path=what) from None
    if any(_is_broken(name) or _is_broken(value) for name, value in pairs):
        raise invalid(f"the {what} holds what is no text; nothing was done.", path=what)
    return pairs


def _is_broken(text: str) -> bool:
    return any(0xD800 <= ord(each) <= 0xDFFF for each in text)


def _kinds(annotation: Any) -> Iterable[Any]:
    yield get_origin(annotation) or annotation
    for each in get_args(annotation):
        yield get_origin(each) or each


def _checked(model: type[M], values: Mapping[str, Any], what: str) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # Places and rules, not values: they may be secret.
        found = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{_place(what, one['loc'])}: {one['msg']}" for one in found[:_SHOWN_ERRORS]]
        more = f"; and {len(found) - len(told)} more" if len(found) > len(told) else ""
        raise invalid(f"{'; '.join(told)}{more}; nothing was done.", path=_place(what, found[0]["loc"])) from None


def _place(what: str, loc: Iterable[int | str]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part[:40]}" for part in loc)
    return what + "".join(parts)


def _unsupported(detail: str) -> Problem:
    return Problem(415, "UNSUPPORTED_MEDIA_TYPE", f"{detail}; nothing was done.")


def _too_large(limit_bytes: int) -> Problem:
    return Problem(413, "PAYLOAD_TOO_LARGE", f"the body is longer than {limit_bytes} bytes; nothing was done.")
