"""The sagas that an app knows: those that `saga_sagas` names, else all that were declared; and the built-in ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from celery.utils.imports import symbol_by_name

from celery_saga.core.admission import ALL, LaneSpec, lane_name, saga_name
from celery_saga.definition import declared
from celery_saga.definition.adopted import ADOPTED
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga
from celery_saga.engine.lanes import Said
from celery_saga.errors import DefinitionError

__all__ = ["DeclaredSagas", "registry_of", "said_of_lanes"]

AnySaga = Saga[Any, Any]


class DeclaredSagas(Registry):
    """Every saga of the process, also those that are declared later."""

    def _refresh(self) -> None:
        for saga in declared.declared():
            if isinstance(saga, Saga) and super().get(saga.name, saga.version) is not saga:
                self._sagas[saga.name, saga.version] = saga

    def __iter__(self) -> Iterator[AnySaga]:
        self._refresh()
        return super().__iter__()

    def get(self, name: str, version: int) -> AnySaga | None:
        """See `Registry.get`."""
        # Asked each time: a definition whose module was reloaded has taken the place of the one before.
        now = declared.declared_as(name, version)
        if isinstance(now, Saga) and super().get(name, version) is not now:
            self._sagas[name, version] = now
        return super().get(name, version)

    def latest(self, name: str) -> AnySaga | None:
        """See `Registry.latest`."""
        self._refresh()
        return super().latest(name)

    def known(self) -> list[tuple[str, int]]:
        """See `Registry.known`."""
        self._refresh()
        return super().known()


def registry_of(named: Iterable[Any] | None, max_payload_bytes: int) -> Registry:
    """The registry for a `saga_sagas` setting.

    Raises:
        DefinitionError: a path that cannot be loaded, or something else than a saga.
    """
    if named is None:
        return DeclaredSagas(max_payload_bytes=max_payload_bytes)
    return Registry([*(_loaded(each) for each in named), ADOPTED], max_payload_bytes=max_payload_bytes)


def said_of_lanes(registry: Registry, lanes: Mapping[str, LaneSpec], max_active: int | None) -> Said:
    """What code and settings say of lanes and caps; settings go before code.

    Args:
        lanes: of `saga_lanes`.
        max_active: of `saga_max_active`.
    """
    found: dict[str, LaneSpec] = {}
    unsaid: list[str] = []
    for saga in {each.name: each for each in sorted(registry, key=lambda each: each.version)}.values():
        if saga.settings.max_active is None:
            unsaid.append(saga_name(saga.name))
        else:
            found[saga_name(saga.name)] = LaneSpec(cap=saga.settings.max_active)
        lane = saga.lane
        if lane is not None and lane.spec is not None and isinstance(lane.name_of, str):
            found[lane_name(lane.name_of)] = lane.spec
    if max_active is None:
        unsaid.append(ALL)
    else:
        found[ALL] = LaneSpec(cap=max_active)
    found |= {lane_name(name): spec for name, spec in lanes.items()}
    return found, unsaid


def _loaded(given: Any) -> AnySaga:
    if not isinstance(given, str):
        return given  # type: ignore[no-any-return]  # the registry refuses what is no saga
    try:
        return symbol_by_name(given)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as error:
        raise DefinitionError(
            f"saga_sagas: {given!r} cannot be loaded: {error}; give the dotted path of a saga"
        ) from error
