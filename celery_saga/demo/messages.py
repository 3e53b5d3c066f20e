"""Messages as files of a folder: kombu's transport, made safe for several processes at once."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps

__all__ = ["SCHEME", "Channel", "Transport"]

SCHEME: Final = "folder"
"""The scheme of a broker URL that means this transport."""


class Channel(filesystem.Channel):
    """Writes a message under another name and renames it, so that nobody reads half of one."""

    def _put(self, queue: str, payload: dict[str, Any], **_: Any) -> None:  # type: ignore[override]
        place = Path(self.data_folder_out)
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}"
        part = place / f"{name}.part"
        part.write_bytes(dumps(payload).encode())
        part.replace(place / f"{name}.{queue}.msg")


class Transport(filesystem.Transport):
    """For `broker_url = "folder://"`."""

    Channel = Channel


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"
