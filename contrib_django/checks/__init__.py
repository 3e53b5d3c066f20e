"""System checks: what is wrong with the project's settings, sagas and saga database, by ids that do not change."""

from __future__ import annotations

from django.core.checks import Tags, register

from contrib_django.checks.placing import check_placing
from contrib_django.checks.project import check_project, check_schedules
from contrib_django.checks.tables import check_database
from contrib_django.checks.transport import check_broker, check_servers, check_transport

__all__ = ["connect"]

_TAG = "celery_saga"


def connect() -> None:
    """Register them with Django: those that ask a database under its tag, those that ask servers for deploys."""
    for check in (check_project, check_schedules, check_placing, check_transport):
        register(check, _TAG)
    register(check_database, _TAG, Tags.database)
    register(check_broker, _TAG, deploy=True)
    register(check_servers, _TAG, Tags.database, deploy=True)
