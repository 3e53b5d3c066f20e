"""What was done is told twice: to the user as a message, and in Django's log of what people did in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from celery_saga.core.masking import masked
from celery_saga.errors import SagaError
from contrib_django.models import Run

__all__ = ["ADDITION", "CHANGE", "DELETION", "log", "refused", "who"]


def who(request: HttpRequest) -> str:
    """Name of the user, as the history of runs keeps it."""
    user: Any = request.user
    return str(user.get_username())


def log(request: HttpRequest, run_id: str, title: str, said: str, flag: int = CHANGE) -> None:
    """Write into Django's log what a user did to a run."""
    LogEntry.objects.create(
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(Run),
        object_id=run_id,
        object_repr=title[:200],
        action_flag=flag,
        change_message=masked(said),
    )


def refused(request: HttpRequest, error: SagaError) -> None:
    """Tell the user that something was refused, with the code of the error."""
    messages.error(request, f"{error.code}: {masked(str(error))}")
