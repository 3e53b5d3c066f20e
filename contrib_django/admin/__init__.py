"""Runs in Django's admin: list, page, desk, starts; Django finds it by its name."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin

from contrib_django.admin.run_admin import RunAdmin

__all__ = ["RunAdmin"]

if apps.is_installed("django_celery_beat"):
    from contrib_django.admin.beat_forms import tell_refusals

    tell_refusals(admin.site)
