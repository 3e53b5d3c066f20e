"""Django's permissions for what people may do to runs, one for each kind of action."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["PERMISSIONS", "VIEW", "VIEW_PAYLOAD", "may", "may_see_payloads"]

VIEW: Final = "view_run"
VIEW_PAYLOAD: Final = "view_payload"

PERMISSIONS: Final[dict[str, str]] = {
    "start": "start_run",
    "signal": "signal_run",
    "cancel": "cancel_run",
    "compensate": "cancel_run",  # both take back what a run did
    "suspend": "suspend_run",
    "pause": "suspend_run",
    "forget": "suspend_run",  # of a lane that was mistyped, with its pause
    "resume": "resume_run",
    "unpause": "resume_run",
    "retry": "retry_run",
    "skip": "retry_run",
    "retry_undo": "settle_undo",
    "resolve_undo": "settle_undo",
    "purge": "purge_run",
}
"""The permission of each verb, without the label of the application."""


def may(user: Any, verb: str) -> bool:
    """Whether a user may use a verb of PERMISSIONS, or `view`."""
    codename = VIEW if verb == "view" else PERMISSIONS[verb]
    return bool(user is not None and user.is_active and user.has_perm(f"celery_saga.{codename}"))


def may_see_payloads(user: Any) -> bool:
    """Whether a user may see what runs were given and what they returned."""
    return bool(user is not None and user.is_active and user.has_perm(f"celery_saga.{VIEW_PAYLOAD}"))
