"""Keeps tokens out of what people read: history and errors show that there was one, not which."""

from __future__ import annotations

import re
from typing import Any

PREFIX = "saga-token."
"""How each token for a signal begins, so that it is known wherever it turns up."""
_TOKEN = re.compile(re.escape(PREFIX) + r"[\w.-]+", re.ASCII)


def masked(text: str) -> str:
    """The text with each token that is in it cut to its beginning."""
    return _TOKEN.sub(PREFIX + "***", text) if PREFIX in text else text


def masked_values(value: Any) -> Any:
    """A value of JSON whose texts are masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: masked_values(item) for key, item in value.items()}
    return [masked_values(item) for item in value] if isinstance(value, list | tuple) else value
