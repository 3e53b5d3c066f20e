"""What payloads go through at rest: a codec with keys that can be rotated, and a folder for the long ones."""

import os
import uuid
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet


class Sealing:
    """Encrypts with the first key of SHOP_KEYS, decrypts with any of them."""

    def __init__(self) -> None:
        keys = os.environ["SHOP_KEYS"].split(",")
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encode(self, text: str) -> str:
        return self._fernet.encrypt(text.encode("utf-8", "surrogatepass")).decode()

    def decode(self, text: str) -> str:
        return self._fernet.decrypt(text).decode("utf-8", "surrogatepass")


class Folder:
    """Keeps long payloads as files; a bucket of an object store looks the same."""

    def __init__(self) -> None:
        self._home = Path(os.environ.get("SHOP_FOLDER", "payloads"))
        self._home.mkdir(parents=True, exist_ok=True)

    def put(self, text: str) -> str:
        reference = uuid.uuid4().hex
        half = self._home / f"{reference}.part"
        half.write_text(text, "utf-8", "surrogatepass")
        half.rename(self._home / reference)  # whole, or not at all
        return reference

    def get(self, reference: str) -> str:
        return (self._home / reference).read_text("utf-8", "surrogatepass")

    def delete(self, reference: str) -> None:
        (self._home / reference).unlink(missing_ok=True)
