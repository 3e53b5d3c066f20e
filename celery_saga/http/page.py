"""The page that a link with a token shows: small, self-contained, without a script."""

from __future__ import annotations

import base64
import hashlib
from html import escape

__all__ = ["HTML", "confirmation", "headers", "note"]

HTML = "text/html; charset=utf-8"

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.4rem}button{font:inherit;padding:.6rem 1.4rem;margin:0 .6rem .6rem 0;cursor:pointer}"
    "code{background:#eee;padding:.1rem .3rem;overflow-wrap:anywhere}"
)
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_SHOWN = 200  # characters of a value


def headers() -> tuple[tuple[str, str], ...]:
    """Headers of every page: nothing is loaded, framed, stored, indexed, or told to where a link leads."""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer"),
        ("X-Robots-Tag", "noindex, nofollow"),
        ("X-Frame-Options", "DENY"),
    )


def confirmation(saga: str, signal: str, answers: list[tuple[str, str]]) -> str:
    """The page with a button for each answer.

    Args:
        answers: of each button, what it says and the value that it sends, as JSON text.
    """
    buttons = "".join(
        f'<button type="submit" name="value" value="{escape(value)}">{escape(told)}</button>' for told, value in answers
    )
    sent = ""
    if len(answers) == 1 and answers[0][1] != "null":
        sent = f"<p>What is sent: <code>{escape(answers[0][1][:_SHOWN])}</code></p>"
    return _page(
        "Please confirm",
        f"<p>This link answers <code>{escape(signal)}</code> of <code>{escape(saga)}</code>. It can be used once.</p>"
        f'{sent}<form method="post">{buttons}</form>',
    )


def note(title: str, text: str) -> str:
    """A page that only says something."""
    return _page(title, f"<p>{escape(text)}</p>")


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex, nofollow"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
