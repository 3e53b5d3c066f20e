"""Writes the list of system checks as a page of the documentation."""

from __future__ import annotations

import sys

from celery_saga.runtime.guard.document import entry
from contrib_django.checks.codes import CODES, PREFIX

__all__ = ["page"]

_HEAD = """\
# System checks of Django

With `contrib_django` in `INSTALLED_APPS`, `manage.py check` looks at the project's sagas too. Each finding has an id
that does not change, the problem as its message and the remedy as its hint; `SILENCED_SYSTEM_CHECKS` takes the ids.

| command | looks at |
|---|---|
| `manage.py check` | what code and settings say, those of broker and pool too; asks no server |
| `manage.py check --database default` | also whether the saga database answers and has its tables |
| `manage.py check --deploy` | also what the broker answers, within 2 s a question |
| `manage.py check --deploy --database default` | everything that `celery saga check` finds |

What `celery saga check` finds too has [its codes](checks.md) in its ids, as `celery_saga.BROKER_UNREACHABLE`; what that
page calls `broker_transport_options` and `saga_lease` is told as `CELERY_BROKER_TRANSPORT_OPTIONS` and
`CELERY_SAGA_LEASE`, in the namespace that the project's Celery app has.
Words in braces are filled in with what was found.
This page is written by `python -m contrib_django.checks.document > docs/django-checks.md`.
"""


def page() -> str:
    """The whole page, in Markdown, ending with a line break."""
    return _HEAD + "".join(entry(code, PREFIX) for code in CODES)


if __name__ == "__main__":
    sys.stdout.write(page())
