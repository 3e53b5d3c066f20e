"""Stands in for the warehouse and the payment gateway: each call is a line of the file that SHOP_BOOKS names."""

import os
from pathlib import Path

BOOKS = Path(os.environ.get("SHOP_BOOKS", "books.txt"))


def note(*words):
    with BOOKS.open("a") as books:
        books.write(" ".join(map(str, words)) + "\n")


def times(*words):
    """How often this line was written."""
    return BOOKS.read_text().splitlines().count(" ".join(map(str, words))) if BOOKS.exists() else 0
