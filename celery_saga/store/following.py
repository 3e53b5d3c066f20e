"""What follows a caller's commit: done right after it, forgotten when the caller rolls back.

SQLAlchemy's events tell of a commit before it happens, and before 2.1 cannot be listened to on every connection, so
what a connection does at the end of a transaction is wrapped, once for each connection. Django has `on_commit`. Whoever
dies between commit and what follows is made up for by the sweeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from sqlalchemy import Connection

__all__ = ["Ending", "after_commit"]

logger = logging.getLogger("celery_saga.store")

_ATTRIBUTE = "_celery_saga_followers"


class _End(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Ending:
    """How a transaction, or the savepoint in it, has ended for one thing that was done in it.

    Args:
        do: called once, right after the commit.
        is_open: asks the connection, where it does not tell of rollbacks by itself; None: it does.
    """

    def __init__(self, do: Callable[[], object], is_open: Callable[[], bool] | None = None) -> None:
        self._do = do
        self._is_open = is_open
        self._end = _End.OPEN

    @property
    def is_open(self) -> bool:
        """It has neither been committed nor rolled back."""
        return self._end is _End.OPEN and (self._is_open is None or self._is_open())

    @property
    def is_rolled_back(self) -> bool:
        """Nothing of it is left."""
        return self._end is not _End.COMMITTED and not self.is_open

    def commit(self) -> None:
        """It is committed: do what follows. An error there is logged, because the caller's commit has succeeded."""
        self._end = _End.COMMITTED
        try:
            self._do()
        except Exception:
            logger.exception("the caller's transaction is committed, but what was to follow failed; a sweeper makes up")

    def roll_back(self) -> None:
        """It never was."""
        self._end = _End.ROLLED_BACK


class _Followers:
    """What follows the commit of one SQLAlchemy connection, now and in its later transactions."""

    def __init__(self, connection: Connection) -> None:
        self._endings: list[Ending] = []
        self._savepoints: list[tuple[str, int]] = []  # name, number of endings before it
        _wrap(connection, "_commit_impl", lambda _: self._committed())
        _wrap(connection, "_commit_twophase_impl", lambda *_: self._committed())
        _wrap(connection, "_rollback_impl", lambda _: self._rolled_back(), first=True)
        _wrap(connection, "_rollback_twophase_impl", lambda *_: self._rolled_back(), first=True)
        _wrap(connection, "_savepoint_impl", lambda name, *_: self._set(name))
        _wrap(connection, "_rollback_to_savepoint_impl", lambda _, name: self._rolled_back_to(name))
        _wrap(connection, "_release_savepoint_impl", lambda _, name: self._leave(name))

    def add(self, ending: Ending) -> None:
        self._endings.append(ending)

    def _committed(self) -> None:
        endings, self._endings, self._savepoints = self._endings, [], []
        for ending in endings:
            ending.commit()

    def _rolled_back(self) -> None:
        self._drop(0)
        self._savepoints = []

    def _set(self, name: str) -> None:
        self._savepoints.append((name, len(self._endings)))

    def _rolled_back_to(self, name: str) -> None:
        # One that was set before anything of ours was done: all of ours lies inside it.
        self._drop(self._leave(name))

    def _leave(self, name: str) -> int:
        """Forget a savepoint and those inside it; the number of endings before it."""
        for place in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[place][0] == name:
                before = self._savepoints[place][1]
                del self._savepoints[place:]
                return before
        return 0

    def _drop(self, before: int) -> None:
        for ending in self._endings[before:]:
            ending.roll_back()
        del self._endings[before:]


def _wrap(connection: Connection, name: str, then: Callable[..., object], *, first: bool = False) -> None:
    """Let a connection's own method tell that it has returned, what, and what it was given.

    Args:
        first: it tells before it does anything, with None for what it returns: also where it fails.
    """
    method: Callable[..., Any] = getattr(connection, name)

    def method_and_then(*args: Any) -> Any:
        if first:
            then(None, *args)
            return method(*args)
        answer = method(*args)
        then(answer, *args)
        return answer

    setattr(connection, name, method_and_then)


def after_commit(connection: Any, do: Callable[[], object]) -> Ending:
    """Call `do` once the transaction that is open on a connection has committed; never if it is rolled back.

    Args:
        connection: a SQLAlchemy connection, or Django's.
    """
    if not isinstance(connection, Connection):
        # What was to follow is forgotten when the savepoint around it is rolled back.
        ending = Ending(do, lambda: any(entry[1] == ending.commit for entry in connection.run_on_commit))
        connection.on_commit(ending.commit)
        return ending
    followers: _Followers | None = connection.__dict__.get(_ATTRIBUTE)
    if followers is None:
        followers = connection.__dict__[_ATTRIBUTE] = _Followers(connection)
    ending = Ending(do)
    followers.add(ending)
    return ending
