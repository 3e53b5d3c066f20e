"""The `saga_*` settings of an app, read late, checked, and frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from celery import Celery

from celery_saga.core.admission import LaneSpec
from celery_saga.core.lifecycle import EVENTS, Wanted
from celery_saga.core.retry import seconds
from celery_saga.definition.lane import Lane
from celery_saga.definition.names import check_dispatch
from celery_saga.engine.ports import Limits
from celery_saga.errors import DefinitionError
from celery_saga.runtime.edition import edition_of
from celery_saga.store import url_of

__all__ = ["NAMES", "Settings", "checked", "read", "sends_sent_events"]

PREFIX = "saga_"
_UNSET = object()
_SHORTEST_KEY = 16
_LONGEST_ADDRESS = 200


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, with its default. Durations are seconds, sizes bytes."""

    database_url: str | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    table_prefix: str = ""
    sagas: tuple[Any, ...] | None = None
    """Sagas, or dotted paths of them; None: every saga that this process has declared."""
    schedules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the clock starts: name -> `saga` (its name or dotted path), and words of `Saga.schedule`."""
    queue: str | None = None
    """Where coordinate messages go; None: by the app's own routing."""
    dispatch: str | None = None
    """How steps are executed where neither step nor saga says: broker, inline or auto; None: broker."""
    lease: float = 30.0
    sweep_interval: float = 1.0
    sweeper: bool = True
    lanes: Mapping[str, LaneSpec] = field(default_factory=dict)
    """What is said of lanes, by name: mappings with cap, hold, limit and window, as of `celery_saga.Lane`."""
    max_active: int | None = None
    """How many runs, of all sagas, may be active at a time; None: any number."""
    step_timeout: float | None = None
    max_stalls: int = 5
    publish_timeout: float = 1.0
    inline_slice: float = 2.0
    signal_ttl: float = 30 * 86400.0
    max_payload_bytes: int = 1024 * 1024
    codec: Any = None
    """What payloads go through before they are written, or its dotted path; see `celery_saga.store.Codec`."""
    offload: Any = None
    """Where long payloads are kept, or its dotted path; see `celery_saga.store.Offload`."""
    offload_above: int = 65_536
    """Payloads that are longer than this as stored, in bytes, go to `offload`."""
    secret_keys: tuple[str, ...] = field(default=(), repr=False)
    """Sign tokens for signals: the first signs, all are accepted."""
    events: frozenset[str] = frozenset()
    """Names of the life-cycle events to be published; True for all of them."""
    events_exchange: str = "saga.events"
    """The topic exchange that they are published on."""
    inbox: str = "saga.inbox"
    """The exchange and the queue that `celery saga consume` takes messages of."""
    send_events: bool | None = None
    """Show runs as tasks in Flower; None: where the app sends task events."""
    expose_args: bool = False
    publish_results: bool = False
    retention: float | None = None
    """How long a run is kept after its end; None: until it is purged by hand."""

    @property
    def wanted(self) -> Wanted | None:
        """What transitions announce in the outbox; None: nothing."""
        wanted = Wanted(self.events, self.publish_results, bool(self.send_events))
        return None if wanted == Wanted() else wanted

    @property
    def limits(self) -> Limits:
        """The engine's numbers."""
        return Limits(
            lease_s=self.lease,
            sweep_interval_s=self.sweep_interval,
            max_stalls=self.max_stalls,
            step_timeout_s=self.step_timeout,
            signal_ttl_s=self.signal_ttl,
            max_payload_bytes=self.max_payload_bytes,
            inline_slice_s=self.inline_slice,
        )


NAMES = frozenset(each.name for each in fields(Settings))
"""The settings without their prefix: what `CelerySaga` takes as options."""


def _text(value: Any, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{name} must be text, got {value!r}")
    return value or None


def _url(value: Any, name: str) -> str | None:
    text = _text(value, name)
    if text is not None:
        try:
            url_of(text)
        except DefinitionError as error:
            raise DefinitionError(f"{name}: {error}") from None
    return text


def _flag(value: Any, name: str) -> bool:
    if isinstance(value, str):
        if value.strip().lower() in {"1", "true", "yes", "on"}:
            return True
        if value.strip().lower() in {"", "0", "false", "no", "off"}:
            return False
    elif isinstance(value, (bool, int)):
        return bool(value)
    raise DefinitionError(f"{name} must be true or false, got {value!r}")


def _count(minimum: int) -> Callable[[Any, str], int]:
    def count(value: Any, name: str) -> int:
        whole = int(value) if isinstance(value, str) and value.strip().isdigit() else value
        if isinstance(whole, bool) or not isinstance(whole, int) or whole < minimum:
            raise DefinitionError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
        return whole

    return count


def _span(minimum_s: float) -> Callable[[Any, str], float]:
    def span(value: Any, name: str) -> float:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise DefinitionError(f"{name} must be seconds or a timedelta, got {value!r}") from None
        return seconds(value, name, minimum_s=minimum_s)

    return span


def _dispatch(value: Any, name: str) -> str | None:
    return check_dispatch(_text(value, name), name)


def _maybe(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, name: None if value is None else check(value, name)


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{name} must be a mapping, got {value!r}")
    return dict(value)


def _schedules(value: Any, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Only their form: whether sagas and arguments are right is known when the sagas are."""
    for key, said in _mapping(value, name).items():
        if not isinstance(said, Mapping) or "saga" not in said:
            raise DefinitionError(f"{name}[{key!r}] must be a mapping with 'saga' and when to start it, got {said!r}")
        unknown = sorted(map(str, set(said) - _SCHEDULE_WORDS))
        if unknown:
            raise DefinitionError(f"{name}[{key!r}] has the unknown word {unknown[0]!r}")
    return _mapping(value, name)


_SCHEDULE_WORDS = frozenset(("saga", "cron", "every", "at", "args", "kwargs", "tz", "overlap", "catch_up"))


def _several(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return tuple(value)
    raise DefinitionError(f"{name} must be a list, got {value!r}")


def _hook(*methods: str) -> Callable[[Any, str], Any]:
    def hook(value: Any, name: str) -> Any:
        if value is None or isinstance(value, str):
            return value or None
        return has_methods(value, name, methods)

    return hook


def has_methods(value: Any, name: str, methods: Iterable[str]) -> Any:
    """An object of the user's, refused where it lacks a method.

    Raises:
        DefinitionError: it does, naming the first.
    """
    for method in methods:
        if not callable(getattr(value, method, None)):
            raise DefinitionError(f"{name}: {value!r} has no method {method}(); nothing was written")
    return value


def _secrets(value: Any, name: str) -> tuple[str, ...]:
    keys = tuple(value.split(",")) if isinstance(value, str) else value
    if isinstance(keys, Iterable) and not isinstance(keys, Mapping):
        keys = tuple(each.strip() if isinstance(each, str) else each for each in keys)
        if all(isinstance(each, str) and len(each) >= _SHORTEST_KEY for each in keys):
            return keys
    # Without the value: errors end up in logs.
    raise DefinitionError(f"{name} must be a list of texts of at least {_SHORTEST_KEY} characters each")


def _events(value: Any, name: str) -> frozenset[str]:
    """True or False, names of events, or text with such in it."""
    if value is None or (isinstance(value, int) and value in {0, 1}):
        return frozenset(EVENTS) if value else frozenset()
    names = _several(value, name)
    if isinstance(value, str) and len(names) == 1 and names[0] not in EVENTS:
        return frozenset(EVENTS) if _flag(value, name) else frozenset()
    unknown = [each for each in names if each not in EVENTS]
    if unknown:
        raise DefinitionError(f"{name}: there is no event {unknown[0]!r}; there are {', '.join(EVENTS)}")
    return frozenset(names)


def _address(value: Any, name: str) -> str:
    """The name of an exchange or queue, with room for what is put behind it; AMQP allows 255 bytes."""
    if not isinstance(value, str) or not value.strip() or len(value.encode()) > _LONGEST_ADDRESS:
        raise DefinitionError(f"{name} must be text of 1 to {_LONGEST_ADDRESS} bytes, got {value!r}")
    return value


def _lanes(value: Any, name: str) -> Mapping[str, LaneSpec]:
    return {lane: _lane(lane, said, f"{name}[{lane!r}]") for lane, said in _mapping(value, name).items()}


def _lane(lane: Any, said: Any, where: str) -> LaneSpec:
    """A mapping with words of `Lane`, or a `Lane` of the same name."""
    if isinstance(said, LaneSpec):
        return said
    if isinstance(said, Lane):
        if said.name != lane:
            raise DefinitionError(f"{where} is a Lane with another name: {said.name!r}; nothing was changed.")
        return said.spec
    if not isinstance(said, Mapping):
        raise DefinitionError(f"{where} must be a Lane, or a mapping like {{'cap': 4}}, got {said!r}")
    unknown = [word for word in said if word not in _LANE_WORDS]
    if unknown:
        raise DefinitionError(f"{where} has the unknown word {unknown[0]!r}; there are {', '.join(_LANE_WORDS)}")
    try:
        return Lane(lane, **said).spec
    except DefinitionError as error:
        raise DefinitionError(f"{where}: {error}") from None


_LANE_WORDS = ("cap", "hold", "limit", "window")


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "database_url": _url,
    "engine_options": _mapping,
    "table_prefix": lambda value, name: _text(value, name) or "",
    "sagas": _maybe(_several),
    "schedules": _schedules,
    "queue": _text,
    "dispatch": _dispatch,
    "lease": _span(0.1),
    "sweep_interval": _span(0.01),
    "sweeper": _flag,
    "step_timeout": _maybe(_span(0.001)),
    "max_stalls": _count(0),
    "lanes": _lanes,
    "max_active": _maybe(_count(1)),
    "publish_timeout": _span(0.01),
    "inline_slice": _span(0.0),
    "signal_ttl": _span(1.0),
    "max_payload_bytes": _count(1024),
    "codec": _hook("encode", "decode"),
    "offload": _hook("put", "get", "delete"),
    "offload_above": _count(1024),
    "secret_keys": _secrets,
    "events": _events,
    "events_exchange": _address,
    "inbox": _address,
    "send_events": _maybe(_flag),
    "expose_args": _flag,
    "publish_results": _flag,
    "retention": _maybe(_span(1.0)),
}


def read(app: Celery) -> Settings:
    """The settings of an app as they stand now, with `send_events` decided. Loads its configuration.

    Raises:
        DefinitionError: a value outside its range, named.
    """
    edition_of(app)
    found: dict[str, Any] = {}
    for name in NAMES:
        value = app.conf.get(PREFIX + name, _UNSET)
        if value is not _UNSET:
            found[name] = value
    values = checked(found)
    if values.get("send_events") is None:
        # Nobody sweeps where runs are executed in their caller's process.
        values["send_events"] = bool(app.conf.worker_send_task_events) and not app.conf.task_always_eager
    return Settings(**values)


def sends_sent_events(app: Celery, settings: Settings) -> bool:
    """Whoever starts a run tells Flower of it: also where only `task_send_sent_event` says so."""
    if app.conf.get(PREFIX + "send_events") is None:
        return bool(settings.send_events or app.conf.task_send_sent_event)
    return bool(settings.send_events)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are meant, by their names without prefix. Loads nothing.

    Raises:
        DefinitionError: a value outside its range, named.
    """
    return {name: _CHECKS[name](value, PREFIX + name) if name in _CHECKS else value for name, value in given.items()}
