"""Models whose rows can be read and not written: the engine is the only writer of the saga tables."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models

from celery_saga.errors import DefinitionError
from contrib_django.saga_database import alias_for

__all__ = ["ReadOnlyManager", "ReadOnlyQuerySet", "Stored"]


def _refuse(model: Any) -> NoReturn:
    raise DefinitionError(
        f"{model._meta.label}: the saga tables are written by the engine alone, which keeps a run's rows in step with "
        "each other; nothing was written. Use the verbs: checkout.start(...), app.saga.get(run_id).cancel(), "
        "`manage.py saga ...`"
    )


class ReadOnlyQuerySet(models.QuerySet[Any]):
    """A query whose verbs that write are refused with a DefinitionError."""

    def create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse(self.model)

    def update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse(self.model)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse(self.model)

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]
    update.alters_data = True  # type: ignore[attr-defined]
    bulk_create = get_or_create = update_or_create = create
    bulk_update = update
    _update = update
    _raw_delete = delete


class ReadOnlyManager(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]
    """Reads on the saga database, unless told otherwise with `using()`."""

    def get_queryset(self) -> Any:
        """All rows."""
        rows = super().get_queryset()
        return rows if self._db else rows.using(alias_for(self.model, self._hints))


class Stored(models.Model):
    """A row of a saga table."""

    objects = ReadOnlyManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"
        default_permissions = ("view",)

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse(type(self))

    def save_base(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused, also for fixtures."""
        _refuse(type(self))

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse(type(self))

    save.alters_data = delete.alters_data = True  # type: ignore[attr-defined]
