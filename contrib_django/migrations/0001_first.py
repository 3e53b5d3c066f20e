"""The first tables, as models: state alone, for the DDL is that of the library's migration 1."""

from __future__ import annotations

from django.db import migrations

from contrib_django.migrating import RunPart
from contrib_django.migrations import _first_runs, _first_services


class Migration(migrations.Migration):
    """Create all tables that are not there."""

    initial = True
    operations = (RunPart(1, "pre", [*_first_runs.OPERATIONS, *_first_services.OPERATIONS]),)
