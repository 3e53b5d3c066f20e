"""In the admin of django-celery-beat, a periodic task that cannot be a schedule is told by its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django_celery_beat import admin as _beats  # registers its models, so that they are there now
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from celery_saga.errors import InvalidPayload, SagaError, UnknownSaga
from contrib_django.beat import refusal_of, refusal_of_crontab

__all__ = ["tell_refusals"]

Refusal = Callable[[Any], "SagaError | None"]


def tell_refusals(site: AdminSite) -> None:
    """Let the forms of periodic tasks and crontabs refuse what their models would refuse to save.

    Whoever has registered an admin of their own for these, with a form of its own, gets that form with this check.
    """
    assert _beats.PeriodicTaskAdmin is not None
    for model, refusal in ((PeriodicTask, refusal_of), (CrontabSchedule, refusal_of_crontab)):
        if site.is_registered(model):
            shown = site._registry[model]
            shown.form = _checked(shown.form, refusal)


def _checked(form: Any, refusal: Refusal) -> Any:
    """The same form, which asks before it is saved; again: the same."""
    if hasattr(form, "celery_saga_refusal"):
        return form

    def _post_clean(self: Any) -> None:
        super(made, self)._post_clean()
        error = None if self.errors else refusal(self.instance)
        if error is not None:
            self.add_error(_field(self, error), str(error))

    made: Any = type(form)(form.__name__, (form,), {"_post_clean": _post_clean, "celery_saga_refusal": True})
    return made


def _field(form: Any, error: SagaError) -> str | None:
    """The field that a refusal is about; None: the form as a whole."""
    if isinstance(error, (InvalidPayload, UnknownSaga)) or "keyword arguments" in str(error):
        return "kwargs" if "kwargs" in form.fields else None
    if getattr(form.instance, "start_time", None) is not None:
        return "start_time"
    return "one_off" if "one-off" in str(error) and "one_off" in form.fields else None
