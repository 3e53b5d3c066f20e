"""How payload texts are at rest: through the user's codec, and the long ones in the user's other store.

Theory of operation. A text goes through the codec first; what comes out stays in its column, or, when it is longer than
a limit, is put elsewhere and the column holds a reference. What was done to a text is told by four characters that no
JSON begins with, so that texts from before a codec was set can still be read. The codec works wherever a row is written
or read. The other store may be slow, so nothing is put or fetched while a transaction of ours is open: what is missing
is noted, the transaction is rolled back, the missing is carried, and the transaction is done again. Only where the
transaction is a caller's, it happens inside: there is no other place.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from celery_saga.core.unreadable import InClear, Unreadable
from celery_saga.errors import DefinitionError, PayloadUnreadable, StoreUnavailable
from celery_saga.store.sealing import sealed

__all__ = ["Carry", "Codec", "Listing", "Offload", "Vault"]

T = TypeVar("T")
logger = logging.getLogger("celery_saga.store")

MARK = "!"
SEALED, AWAY, CLEAR = "!s1:", "!a1:", "!t1:"
_MARK = 4
_KEPT_CHARS, _KEPT_SHARE = 16 * 1024 * 1024, 4
_LONGEST_TRIP, _LONGEST_REFERENCE = 10, 1_000


@runtime_checkable
class Codec(Protocol):
    """What `saga_codec` takes: turns texts into other texts before they are written, and back after they were read.

    Called in every process that uses the saga database, from several threads, and inside transactions: it must be
    quick, and must not use that database.
    """

    def encode(self, text: str) -> str:
        """What is stored instead of a text: any text without NUL and lone surrogates.

        Raises:
            SagaError: raised as it is; `StoreUnavailable` where it cannot be told now, to be tried again.
            Exception: anything else is raised as `InvalidPayload`. In every case nothing is written.
        """

    def decode(self, text: str) -> str:
        """The text that `encode` was given, also under the keys of before.

        Raises:
            StoreUnavailable: it cannot be told now, as where a key service is out of reach; to be tried again.
            Exception: anything else means that this text cannot be read; its run is parked.
        """


@runtime_checkable
class Offload(Protocol):
    """What `saga_offload` takes: keeps long texts elsewhere.

    Called from several threads. Any other error than those below means that it is out of reach: what was to be done is
    tried again, as when the database is.
    """

    def put(self, text: str) -> str:
        """Keep a text; a reference under which it is found, of at most 1,000 characters, another one each time."""

    def get(self, reference: str) -> str:
        """The text that was kept under a reference.

        Raises:
            LookupError, FileNotFoundError: it is not there; its run is parked.
        """

    def delete(self, reference: str) -> None:
        """Forget a text; nothing where it is not there."""


@runtime_checkable
class Listing(Protocol):
    """What an `Offload` may have besides: `purge_orphans` needs it."""

    def put_before(self, at: datetime) -> Iterable[str]:
        """References of all texts that were put before an aware instant, and of nothing that others keep there."""


class Carry(Exception):  # noqa: N818 - not an error: what is missing is carried, and the work done again
    """Something is to be put or fetched before the transaction can be; roll back, carry, and do it again."""


class _Trip:
    """What one call of the store has carried, and has still to carry.

    Args:
        is_direct: there is no transaction of ours around: things are put and fetched when they are met.
    """

    def __init__(self, *, is_direct: bool, fetches: bool = True) -> None:
        self.is_direct = is_direct
        self.fetches = fetches
        self.fetched: dict[str, str] = {}
        self.wanted: list[str] = []
        self.put: dict[str, str] = {}
        self.unput: list[tuple[str, str]] = []
        self.unreadable: list[Unreadable] = []
        self.replaced: list[str] = []


class Vault:
    """Texts as they are stored, and back.

    Args:
        codec: None: texts are stored as they are.
        offload: None: all are stored in their columns.
        offload_above: bytes of UTF-8 of the stored text above which it is put elsewhere.
    """

    def __init__(
        self, codec: Codec | None = None, offload: Offload | None = None, *, offload_above: int = 65_536
    ) -> None:
        self.codec = codec
        self.offload = offload
        self.offload_above = offload_above
        self._local = threading.local()
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._kept_chars = 0
        self._turn = threading.Lock()

    @property
    def is_plain(self) -> bool:
        """Texts are in their columns as they are given, so that each can be read wherever its row can."""
        return self.codec is None and self.offload is None

    # -- one call of the store -----------------------------------------------------------------------------------
    def carrying(self, do: Callable[[], T], *, is_direct: bool = False, fetches: bool = True) -> T:
        """Do the work of one call, again and again until nothing has to be carried any more.

        Args:
            do: its transaction.
            is_direct: the transaction is a caller's: put and fetch inside.
            fetches: False: what is elsewhere stays there, and is told as `Unreadable`.
        """
        before, self._local.trip = self._trip, _Trip(is_direct=is_direct, fetches=fetches)
        try:
            for _ in range(_LONGEST_TRIP):
                try:
                    return self._done(do())
                except Carry:
                    self._carry(self._local.trip)
            # What is to be written differs each time: then inside, rather than never.
            self._local.trip.is_direct = True
            return self._done(do())
        finally:
            self._local.trip = before

    def _done(self, answer: T) -> T:
        """After the commit: what no row holds any more is deleted."""
        trip = self._trip
        if trip is not None and trip.replaced and not trip.is_direct:
            try:
                self.forget(trip.replaced)
            except StoreUnavailable as error:
                logger.warning("what a run does not need any more was left in saga_offload: %s", error)
        return answer

    def replaced(self, raw: str | None) -> None:
        """Once this is committed, no row holds this stored text any more."""
        trip = self._trip
        if trip is not None and raw is not None and raw.startswith(AWAY):
            trip.replaced.append(raw[_MARK:])

    def begin(self) -> None:
        """A transaction of the call begins: what an earlier one met counts no more."""
        trip = self._trip
        if trip is not None:
            trip.wanted.clear()
            trip.unput.clear()
            trip.unreadable.clear()
            trip.replaced.clear()

    def check(self, what: str | None = None) -> None:
        """Before anything is made of what was read, and before a commit.

        Args:
            what: nothing of it may be unreadable; None: that does not matter.
        Raises:
            Carry: something has to be carried first.
            PayloadUnreadable: something cannot be read.
        """
        trip = self._trip
        if trip is None:
            return
        if trip.wanted or trip.unput:
            raise Carry
        if what is not None and trip.unreadable:
            raise PayloadUnreadable(
                f"{what}: something stored of it cannot be read ({trip.unreadable[0].why}); nothing was written. "
                "Let saga_codec know its key, or put back what is missing; then do it again, and resume the run where "
                "it is parked."
            )

    @property
    def trouble(self) -> str | None:
        """Why something that was read in this call cannot be read; None: everything can."""
        trip = self._trip
        return None if trip is None or not trip.unreadable else trip.unreadable[0].why

    # -- at rest -------------------------------------------------------------------------------------------------
    def closed(self, text: str, *, is_large: bool) -> str:
        """The text as it is stored.

        Args:
            is_large: it may be put elsewhere.
        Raises:
            Carry: it has to be put elsewhere first.
        """
        if type(text) is str and self.codec is None and (self.offload is None or not is_large):
            return text
        if isinstance(text, Unreadable):
            return text.raw
        if isinstance(text, InClear):
            return str(text)
        trip = self._trip
        if is_large and trip is not None and text in trip.put:
            return trip.put[text]
        raw = text if self.codec is None else SEALED + sealed(self.codec, text)
        if self.offload is None or not is_large or not self._is_long(raw):
            return raw
        if trip is None or trip.is_direct:
            return self._put(raw)
        trip.unput.append((text, raw))
        raise Carry

    def put_first(self, texts: Iterable[str]) -> None:
        """Have all of these put elsewhere that will have to be.

        Raises:
            Carry: some have to be.
        """
        trip = self._trip
        if self.offload is None or trip is None or trip.is_direct:
            return
        for text in texts:
            if len(text) > self.offload_above and type(text) is str and text not in trip.put:
                try:
                    self.closed(text, is_large=True)
                except Carry:
                    continue
        if trip.unput:
            raise Carry

    def opened(self, raw: str) -> str:
        """The text of a stored one that begins with a mark, or what stands for one that cannot be read."""
        mark, content = raw[:_MARK], raw[_MARK:]
        if mark == CLEAR:
            return content
        if mark == SEALED:
            return self._told(self._decoded(raw, content))
        return self._told(self._fetched(raw, content)) if mark == AWAY else raw

    def _told(self, text: str) -> str:
        trip = self._trip
        if trip is not None and isinstance(text, Unreadable) and not text.is_away:
            trip.unreadable.append(text)
        return text

    def _decoded(self, raw: str, content: str) -> str:
        if self.codec is None:
            return Unreadable(raw, "it went through a saga_codec, and none is set here")
        try:
            text: object = self.codec.decode(content)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a codec raises says that it cannot read this
            return Unreadable(raw, f"saga_codec cannot read it: {type(error).__name__}")
        if isinstance(text, str):
            return text
        return Unreadable(raw, f"saga_codec.decode() gave {type(text).__name__}, no text")

    # -- elsewhere -----------------------------------------------------------------------------------------------
    def _fetched(self, raw: str, reference: str) -> str:
        trip = self._trip
        found = self._kept.get(reference) or (None if trip is None else trip.fetched.get(reference))
        if found is not None:
            return found
        if trip is None or trip.is_direct:
            return self._fetch(reference)
        if trip.fetches:
            trip.wanted.append(reference)
        return Unreadable(raw, "it is stored elsewhere", is_away=True)

    def _carry(self, trip: _Trip) -> None:
        for text, raw in trip.unput:
            if text not in trip.put:
                trip.put[text] = self._put(raw)
        for reference in trip.wanted:
            if reference not in trip.fetched:
                trip.fetched[reference] = self._fetch(reference)

    def _put(self, raw: str) -> str:
        assert self.offload is not None
        try:
            reference: object = self.offload.put(raw)
        except Exception as error:
            raise _out_of_reach("put", error) from error
        if not isinstance(reference, str) or not 0 < len(reference) <= _LONGEST_REFERENCE:
            raise DefinitionError(
                f"saga_offload.put() must give a text of 1 to {_LONGEST_REFERENCE} characters, got {reference!r:.60}; "
                "nothing was written"
            )
        return AWAY + reference

    def _fetch(self, reference: str) -> str:
        raw = AWAY + reference
        if self.offload is None:
            return Unreadable(raw, "it was put elsewhere by a saga_offload, and none is set here")
        try:
            content = self.offload.get(reference)
        except (LookupError, FileNotFoundError) as error:
            return Unreadable(raw, f"saga_offload does not have it: {type(error).__name__}")
        except Exception as error:
            raise _out_of_reach("get", error) from error
        text = self._decoded(raw, content[_MARK:]) if content[:_MARK] == SEALED else content
        self._keep(reference, text)
        return text

    def _keep(self, reference: str, text: str) -> None:
        """Keep what was fetched for a while: each pass over a run's records would fetch it again."""
        if isinstance(text, Unreadable) or len(text) > _KEPT_CHARS // _KEPT_SHARE:
            return
        with self._turn:
            self._kept_chars += len(text) - len(self._kept.pop(reference, ""))
            self._kept[reference] = text
            while self._kept_chars > _KEPT_CHARS:
                self._kept_chars -= len(self._kept.popitem(last=False)[1])

    def forget(self, references: Iterable[str]) -> None:
        """Delete what is kept elsewhere under these references, once no row holds them any more.

        Raises:
            StoreUnavailable: saga_offload is out of reach; some may be deleted, and it can be called again.
        """
        for reference in references:
            with self._turn:
                self._kept_chars -= len(self._kept.pop(reference, ""))
            if self.offload is not None:
                try:
                    self.offload.delete(reference)
                except (LookupError, FileNotFoundError):
                    continue
                except Exception as error:
                    raise _out_of_reach("delete", error) from error

    def put_before(self, at: datetime) -> list[str]:
        """References of what was put elsewhere before an instant.

        Raises:
            DefinitionError: there is no other store, or it does not tell.
            StoreUnavailable: it is out of reach.
        """
        if not isinstance(self.offload, Listing):
            what = "is not set" if self.offload is None else "has no put_before(at), which tells what it keeps"
            raise DefinitionError(f"purge_orphans(): saga_offload {what}; nothing was purged.")
        try:
            return list(self.offload.put_before(at))
        except Exception as error:
            raise _out_of_reach("list", error) from error

    def _is_long(self, raw: str) -> bool:
        return len(raw) > self.offload_above or (
            not raw.isascii() and len(raw.encode("utf-8", "surrogatepass")) > self.offload_above
        )

    @property
    def _trip(self) -> _Trip | None:
        trip: _Trip | None = getattr(self._local, "trip", None)
        return trip


def _out_of_reach(verb: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"saga_offload.{verb}() failed ({type(error).__name__}: {error}); nothing is known to be written. "
        "Ask again when it answers."
    )
