"""Adds sagas to the project's Celery app, with what the project's settings say of them, and keeps both together."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from celery import Celery
from django.db import DEFAULT_DB_ALIAS
from django.utils.module_loading import autodiscover_modules

from celery_saga.errors import DefinitionError
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.edition import follow
from celery_saga.runtime.sagas import registry_of
from celery_saga.runtime.settings import checked
from celery_saga.store import UNPOOLED
from contrib_django import options, transactions
from contrib_django.databases import database_of, said_now
from contrib_django.project import current, followed_by, keep
from contrib_django.saga_database import saga_alias

__all__ = ["Followed", "followed_of", "install"]

_NEEDED = frozenset({"database_url", "table_prefix"})
"""Models, migrations and transactions follow them, so Django's settings have to say them."""
_ALIAS = "saga_django_database"
"""Written into the configuration of the Celery app, beside the URL that follows from it."""


def install() -> Followed | None:
    """Add sagas to the project's Celery app, and import `sagas.py` of every installed app.

    Returns:
        What was added; None: the project has imported no Celery app yet, so that nothing could be.
    Raises:
        DefinitionError: the project's code has added sagas with options that its settings say otherwise, or with where
            runs are kept, which its settings have to say.
    """
    app = current()
    followed = None
    if app is not None:
        there = getattr(app, "saga", None)
        extension = there if isinstance(there, CelerySaga) else CelerySaga(app)
        extension.agree(options.options(), options.named, needed=_NEEDED)
        followed = Followed(app)
        keep(app, followed)
        transactions.join(app)
    autodiscover_modules("sagas")
    return followed


def followed_of(app: Celery) -> Followed | None:
    """What `install` has added to an app; None: nothing."""
    found: Followed | None = followed_by(app)
    return found


class Followed:
    """The project's settings as those of its Celery app, now and after each change of the database that they name.

    Args:
        app: with celery_saga added.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._edition = 0
        self._said: tuple[str, ...] = ()
        self._alias: str | None = None
        self._first = _at_first()
        self._own_options: Mapping[str, Any] = {}
        self._is_ready = False
        self._is_eager: bool | None = None
        self.trouble: DefinitionError | None = None
        """Why runs cannot be kept where the settings say."""
        if getattr(app, "configured", False):
            self._configure()
        else:
            app.on_after_configure.connect(self._configure, weak=False)
        follow(app, self.edition)

    @property
    def alias(self) -> str | None:
        """The alias in `DATABASES` of the database that has the runs; None: it is none of these."""
        self._app.conf.get("saga_database_url")  # loads the configuration
        return self._alias

    @property
    def vendor(self) -> str:
        """The kind of the saga database: postgresql, sqlite, mysql, mariadb; empty where it is not known."""
        return str(self._app.conf.get("saga_database_url") or "").partition(":")[0].partition("+")[0]

    @property
    def is_of_a_test(self) -> bool:
        """Runs are kept in the database of a test, which is dropped while this process lives."""
        return self._alias is not None and self._said != self._first

    def load(self) -> None:
        """Load the configuration of the Celery app, and bring it up to date; what is wrong with it is in `trouble`."""
        with suppress(DefinitionError):
            self.edition()

    def edition(self) -> int:
        """See `celery_saga.runtime.edition.follow`."""
        if not self._is_ready:
            self._app.conf.get("saga_database_url")
        if self._alias is not None and said_now(self._alias) != self._said:
            with self._lock:
                if said_now(self._alias) != self._said:
                    self._take(self._alias)
        if self.is_of_a_test and self._is_eager_now() != self._is_eager:  # `override_settings` in a test
            with self._lock:
                if (is_eager := self._is_eager_now()) != self._is_eager:
                    self._is_eager = is_eager
                    self._edition += 1
        if self.trouble is not None:
            raise self.trouble
        return self._edition

    def _is_eager_now(self) -> bool:
        return bool(self._app.conf.task_always_eager)

    def _configure(self, **_: Any) -> None:
        """The configuration has been loaded: what it says goes before `CELERY_SAGA_DATABASE`'s default."""
        conf = self._app.conf
        self._is_ready = True
        self._name_sagas()
        url = conf.get("saga_database_url")
        if url and _ALIAS not in conf:  # a spawned process has what its parent has written
            self.trouble = _trouble(url)
            return
        conf[_ALIAS] = alias = saga_alias() or DEFAULT_DB_ALIAS
        self._own_options = dict(options.options().get("engine_options") or {})
        try:
            said_now(alias)
        except DefinitionError as error:
            self.trouble = error
        else:
            self._alias = alias
            self._take(alias)

    def _take(self, alias: str) -> None:
        self._said, self.trouble = said_now(alias), None
        try:
            database = database_of(alias)
        except DefinitionError as error:
            self.trouble = error
            self._edition += 1
            return
        made = dict(self._own_options)
        made["connect_args"] = {**database.connect_args, **made.get("connect_args", {})}
        if self.is_of_a_test:
            made = {**UNPOOLED, **made}
        self._app.conf["saga_database_url"] = database.url
        self._app.conf["saga_engine_options"] = made
        self._edition += 1

    def _name_sagas(self) -> None:
        """Let the app know what `CELERY_SAGA_SAGAS` names, and all that was discovered."""
        named = self._app.conf.get("saga_sagas")
        if named is not None:
            with suppress(DefinitionError):  # the settings stay as they are, and say it whenever they are used
                registry_of(checked({"sagas": named})["sagas"], 1024)  # imports them, which declares them
                self._app.conf["saga_sagas"] = None


def _at_first() -> tuple[str, ...]:
    """What `DATABASES` says of the saga database before any test runner has changed it."""
    try:
        return said_now(saga_alias() or DEFAULT_DB_ALIAS)
    except DefinitionError:
        return ()  # told once the configuration is loaded


def _trouble(url: str) -> DefinitionError | None:
    """What is wrong with the settings where the app's configuration names a database by its URL; None: nothing."""
    setting = options.named("database_url")
    if options.database_alias() is not None:
        return DefinitionError(
            f"{options.DATABASE} and {setting} both say where runs are kept; nothing was opened. Remove one of them."
        )
    if options.options().get("database_url") != url:
        return DefinitionError(
            f"the Celery app names the saga database, and Django's settings do not; nothing was opened. Set {setting}, "
            f"or {options.DATABASE}, there."
        )
    return None
