"""JSON from others, read so that it means one thing: what readers would understand differently is refused."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

__all__ = ["AmbiguousJson", "read_json"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class AmbiguousJson(ValueError):
    """A text is no JSON, or none that means one thing; its message goes on after the text's name: "nests too deep"."""


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        AmbiguousJson: it is no JSON, nests too deep, names a member twice, or holds NaN or half of a surrogate pair.
    """
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise AmbiguousJson("nests too deep") from None
    except UnicodeEncodeError:
        raise AmbiguousJson("holds half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise AmbiguousJson(f"is no JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except AmbiguousJson:
        raise
    except ValueError:
        raise AmbiguousJson("holds a number that cannot be read") from None
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AmbiguousJson("has an object that names a member twice")
    return found


def _constant(name: str) -> NoReturn:
    raise AmbiguousJson(f"holds {name}, which is no number of JSON")
