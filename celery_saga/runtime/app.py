"""`CelerySaga`: adds sagas to a Celery app that exists already, and is where an operator asks about runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from weakref import WeakSet

from celery import Celery, Signature, current_app

from celery_saga.client import binding, tokens
from celery_saga.client.filters import check_run_id
from celery_saga.client.handle import RunHandle
from celery_saga.core.asked import known_as
from celery_saga.definition import declared
from celery_saga.definition.registry import Registry
from celery_saga.definition.signal import Signal
from celery_saga.engine.ambient import AmbientEngine
from celery_saga.engine.engine import Engine
from celery_saga.engine.previewing import Preview, preview
from celery_saga.engine.versions import VersionRecord, versions
from celery_saga.errors import DefinitionError
from celery_saga.runtime import coordinator, purity, report, scheduling, worker
from celery_saga.runtime.app_lanes import Admitting
from celery_saga.runtime.assembly import process_services, sweeper_services
from celery_saga.runtime.chords import SignalChord
from celery_saga.runtime.durable import DurableCanvas
from celery_saga.runtime.eager import EagerPublisher
from celery_saga.runtime.headers import captured
from celery_saga.runtime.health import examined
from celery_saga.runtime.keeping import Keeping
from celery_saga.runtime.observed import expect_metrics
from celery_saga.runtime.operating import Operated
from celery_saga.runtime.options import differing, real_app, write_options
from celery_saga.runtime.saga_task import register_sagas
from celery_saga.runtime.scheduling import Scheduling
from celery_saga.runtime.services import Services, attach, services_of
from celery_saga.runtime.settings import NAMES, PREFIX, checked
from celery_saga.runtime.showing.announcing import Announcing
from celery_saga.runtime.sweeper import ALIVE_S, SweeperLoop, run_until_signalled
from celery_saga.runtime.transactional import ambient_of
from celery_saga.store import SqlStore

__all__ = ["CelerySaga", "run_sweeper"]

_apps: WeakSet[Celery] = WeakSet()
_lock = threading.Lock()


@known_as
class CelerySaga(Operated, Keeping, Scheduling, Admitting, Announcing):
    """Durable sagas for a Celery app, as `app.saga`.

    Args:
        app: the app; None: given to `init_app` later.
        saga_options: settings without their prefix, like `database_url=`. Settings of the app go before them.
    Raises:
        DefinitionError: an option that is unknown or out of range, or the app has sagas with other options; the app
            was left as it was.
    """

    def __init__(self, app: Celery | None = None, **saga_options: Any) -> None:
        unknown = sorted(set(saga_options) - NAMES)
        if unknown:
            raise DefinitionError(
                f"CelerySaga() does not know the option {unknown[0]!r}; it takes {', '.join(sorted(NAMES))}"
            )
        self._options: Mapping[str, Any] = checked(saga_options)
        self._framework: Mapping[str, Any] = {}
        self._app: Celery | None = None
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Celery) -> None:
        """Add sagas to the app. Neither loads its configuration nor touches its tasks; again with equal options: no-op.

        Raises:
            DefinitionError: it has sagas with other options; it was left as it was.
        """
        app = real_app(app)
        there = getattr(app, "saga", None)
        if isinstance(there, CelerySaga):
            if dict(there._options) != dict(self._options) and differing(self._options, there._framework):
                raise DefinitionError(
                    f"the Celery app {app.main!r} has sagas already, with other options ({sorted(there._options)}, "
                    f"{sorted(self._options)} now); it was left as it was. Call CelerySaga(app, ...) once."
                )
            self._app = app
            return
        self._app = app
        app.__dict__["saga"] = self
        with _lock:
            _apps.add(app)
        write_options(app, self._options)
        attach(app, lambda: process_services(app))
        coordinator.register(app)
        report.register(app)
        scheduling.register(app)
        purity.guard(app)
        worker.add_to_worker(app)
        _when_finalized(app)

    def agree(self, settings: Mapping[str, Any], named: Callable[[str], str], *, needed: frozenset[str]) -> None:
        """Let the settings of a framework hold for the app, beside what code that has added sagas to it says.

        Args:
            settings: by their names without prefix.
            named: the framework's name of a setting.
            needed: what the framework itself has to know, so that code alone must not say it.
        Raises:
            DefinitionError: an option of the code that they say otherwise, or a needed one; nothing was changed.
        """
        wrong = [name for name in differing(self._options, settings) if name in settings or name in needed]
        if wrong:
            raise DefinitionError(
                f"CelerySaga(app, {wrong[0]}=...) of the Celery app {self.app.main!r} does not agree with the "
                f"settings: {named(wrong[0])} {'says otherwise' if wrong[0] in settings else 'is not set'}; "
                f"nothing was changed. Say it in the settings, and write CelerySaga(app) without it, or not at all."
            )
        self._framework = settings
        write_options(self.app, settings)

    @staticmethod
    def of(app: Celery) -> CelerySaga:
        """The sagas of an app, typed; added now where only its configuration knows of them, as in a spawned process.

        Raises:
            DefinitionError: celery_saga was not added to the app.
        """
        app = real_app(app)
        found = getattr(app, "saga", None)
        if isinstance(found, CelerySaga):
            return found
        if not app.conf.get(PREFIX + "database_url"):
            raise DefinitionError(
                f"the Celery app {app.main!r} has no celery_saga: write CelerySaga(app) where it is made"
            )
        return CelerySaga(app)

    # -- what it works with ------------------------------------------------------------------------------------
    @property
    def app(self) -> Celery:
        """The Celery app.

        Raises:
            DefinitionError: `init_app` was not called.
        """
        if self._app is None:
            raise DefinitionError("this CelerySaga has no Celery app yet: call init_app(app)")
        return self._app

    @property
    def services(self) -> Services:
        """Store, publisher and engine of this process; made at first use."""
        return services_of(self.app)

    @property
    def engine(self) -> Engine:
        """This process's engine; where a framework opens transactions, one that takes part in them."""
        services, ambient = self.services, ambient_of(self.app)
        return (
            AmbientEngine(services.engine, ambient) if ambient is not None and services.is_shared else services.engine
        )

    @property
    def store(self) -> SqlStore:
        """This process's store; where a framework has a transaction open, as that one sees the tables."""
        return cast(SqlStore, self.engine.store)

    @property
    def registry(self) -> Registry:
        """The sagas that the app knows."""
        return self.services.registry

    @property
    def eager(self) -> bool:
        """`task_always_eager`: runs are executed in the caller's process."""
        return self.services.eager

    def headers(self) -> Mapping[str, str]:
        """Message headers to keep with a run that starts here."""
        return captured()

    def after_start(self, run_id: str) -> None:
        """When eager: do what is due of the run, up to its end or its next wait. Else nothing."""
        publisher = self.services.publisher
        if isinstance(publisher, EagerPublisher):
            publisher.drive(run_id)

    # -- runs --------------------------------------------------------------------------------------------------
    def get(self, run_id: str) -> RunHandle[Any]:
        """A handle of the run with this id, of whichever saga.

        Raises:
            RunNotFound: there is no such run.
            InvalidPayload: this is no run id.
        """
        engine, drive = binding.engine_of(self)
        record = engine.run_of(check_run_id(run_id))
        known = self.registry.get(record.saga, record.version)
        return RunHandle(engine, run_id, known, False, key=record.key, drive=drive)

    def durable(self, canvas: object, *, key: str | None = None) -> DurableCanvas:
        """A canvas that keeps `delay()` and `apply_async()`, and whose starts are runs; see docs/canvases.md.

        Args:
            canvas: a signature of a task, chain, group, chord, map, starmap or chunks, or the JSON of one.
            key: two starts with one key are one run; 1 to 255 characters.
        Raises:
            DefinitionError: it holds what is not carried, all of which the text lists; nothing was started.
            InvalidPayload: an argument in it cannot be stored, or this cannot be a key; nothing was started.
        """
        return DurableCanvas(self, canvas, key)

    def versions(self) -> list[VersionRecord]:
        """Every version of a saga that has live runs, or that this process or a live worker knows, by name."""
        return versions(self.store, self.registry.known(), alive_s=ALIVE_S)

    def preview(self) -> Preview:
        """Replay the live runs against the code of this process and tell which would break, and why. Writes nothing.

        For CI, before a deploy: made in a process that has the new code and can read the database of the old one.
        """
        return preview(self.store, self.registry, resend_s=self.engine.limits.lease_s)

    def migrate(self) -> list[str]:
        """Bring the tables up to this code; the names of what was applied, none when they were current.

        Safe beside running workers and beside itself: it takes a lock, and each migration is idempotent.
        """
        from celery_saga.store import migrate  # noqa: PLC0415  # only this needs it

        return migrate(self.services.store)

    # -- signals -----------------------------------------------------------------------------------------------
    def chord(self, run_id: str, signals: Sequence[Signal[Any] | str]) -> SignalChord:
        """Hang a task on a run's signals: `app.saga.chord(run_id, [APPROVAL, "paid"])(ship.s())`; see docs/signals.md.

        The task is executed once, as a step of the run, when a signal of each name was received; it observes them, and
        the body's waits take them as ever.

        Args:
            signals: 1 to 100 Signals or names, each once.
        Returns:
            What takes the signature.
        Raises:
            DefinitionError: something else; nothing was written.
        """
        return SignalChord(self, check_run_id(run_id), signals)

    def redeem(self, token: str, value: object = None, *, error: BaseException | None = None) -> RunHandle[Any]:
        """Send the signal that a token of `run.token()` stands for, once.

        Args:
            value, error: as of `RunHandle.signal`.
        Returns:
            A handle of the run.
        Raises:
            InvalidToken: none that we signed, or revoked by a later one, or its run has begun again or is gone.
            SignalDuplicate: it was redeemed before.
            SignalExpired: its time is over, or the run has ended.
            InvalidPayload, PayloadTooLarge: as of `RunHandle.signal`; the token can still be redeemed.
            DefinitionError: `saga_secret_keys` is not set, or called inside a body. In every case nothing was sent.
        """
        return tokens.redeem(self.engine, self.get, self.services.settings.secret_keys, token, value, error)

    # -- health ------------------------------------------------------------------------------------------------
    def check(self, **options: Any) -> list[Any]:
        """Dangerous combinations of broker, database, pool and settings, errors first; asks the servers, bounded.

        Args:
            options: of `celery_saga.runtime.guard.gather`.
        Returns:
            Findings with `code`, `level`, `sentence` and `remedy`.
        Raises:
            DefinitionError: an option that is unknown, or no number where one is; nothing was asked.
        """
        from celery_saga.runtime.checking import check  # noqa: PLC0415  # imports drivers that only this needs

        return list(check(self.app, **options))

    def doctor(self) -> dict[str, Any]:
        """What is wrong with the runs now.

        Returns:
            `without_wake_up`: live runs that nothing would ever wake; `attention`: runs that wait for a person;
            `unknown_versions`: (saga, version, number of live runs) that no live sweeper's process knows; with no
            live sweeper, that this process does not know;
            `sweepers`: who sweeps. All lists are empty, but the last, when all is well.
        """
        return examined(self.store, self.registry, self.runs(attention=True))


def run_sweeper(app: Celery) -> None:
    """Sweep in this process, without a worker, until SIGTERM or SIGINT.

    Raises:
        DefinitionError: celery_saga was not added to the app, or has no database.
    """
    app = real_app(app)
    CelerySaga.of(app)
    services = sweeper_services(app)
    expect_metrics(app)
    run_until_signalled(SweeperLoop(lambda: services))


def _when_finalized(app: Celery) -> None:
    def register(**_: Any) -> None:
        if app.conf.get(PREFIX + "database_url"):
            with suppress(DefinitionError):  # told to whoever uses the sagas
                register_sagas(app, services_of(app).registry)

    if not getattr(app, "finalized", False):
        app.on_after_finalize.connect(register, weak=False)
        return
    for saga in declared.declared():  # binding Celery's own tasks has loaded the configuration
        _on_declared_in(app, saga)


def _on_declared(saga: declared.Declared) -> None:
    """A saga that is declared after an app was finalized is a task there too, as Celery's shared tasks are."""
    with _lock:
        apps = list(_apps)
    for app in apps:
        # What is not finalized yet registers all sagas then; the configuration is not loaded for this.
        if getattr(app, "finalized", False) and getattr(app, "configured", False):
            _on_declared_in(app, saga)


def _on_declared_in(app: Celery, saga: declared.Declared) -> None:
    if app.conf.get(PREFIX + "database_url") and app.conf.get(PREFIX + "sagas") is None:
        register_sagas(app, [saga])


def _resolve(saga: Any) -> CelerySaga:
    """An app whose `saga_sagas` names this saga, else the current app, else the only one."""
    with _lock:
        apps = list(_apps)
    if saga is not None:
        for app in apps:
            if app.conf.get(PREFIX + "sagas") is not None and (found := _knows(app, saga)) is not None:
                return found
    current = real_app(current_app)
    if isinstance(getattr(current, "saga", None), CelerySaga):
        return CelerySaga.of(current)
    if len(apps) == 1:
        return CelerySaga.of(apps[0])
    what = "celery_saga" if saga is None else f"saga {saga.name!r}"
    raise DefinitionError(
        f"{what}: {'no' if not apps else 'more than one'} Celery app here has celery_saga; nothing was written. "
        + (
            "Write CelerySaga(app) where the app is made, and import that module."
            if not apps
            else "Name the saga in saga_sagas of one of them."
        )
    )


def _knows(app: Celery, saga: Any) -> CelerySaga | None:
    found = CelerySaga.of(app)
    return found if found.registry.get(saga.name, saga.version) is not None else None


def _has_sagas(app: Celery) -> bool:
    if not worker.is_configured(app):
        return False
    CelerySaga.of(app)
    return True


binding.set_resolver(_resolve)
binding.set_signatures(lambda task, args, kwargs: Signature(task, args, dict(kwargs)))
declared.observe(_on_declared)
worker.connect(_has_sagas)
