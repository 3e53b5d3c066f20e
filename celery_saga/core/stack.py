"""The stack of what is to be undone, of which a transition needs only the top: an undo costs the same in any run.

Theory of operation. Which undo is next is told by what within a prefix is open, by whether an undo there is used up,
and by the few steps of the highest `seq` that need an undo and have none. A store loads just these, whatever else the
run has done. Where a transition uses up the top, as when several undos are skipped at once, it needs all steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core.focus import Extent, Incomplete
from celery_saga.core.snapshot import Snapshot

__all__ = ["TOP", "WHOLE", "need_below", "need_stacks"]

TOP = 4
"""So many steps are loaded of a stack."""
WHOLE = ""
"""The prefix of everything."""
_MOST = 4


def need_stacks(s: Snapshot, prefixes: Iterable[str]) -> None:
    """Go on only on a snapshot that has the tops of these stacks.

    Raises:
        Incomplete: it does not; the transition is to be tried again on more.
    """
    if s.extent is Extent.ALL:
        return
    missing = tuple(dict.fromkeys(prefix for prefix in prefixes if prefix not in s.stacks))
    if missing:
        raise Incomplete(Extent.ALL, stacks=missing if len(missing) <= _MOST else ())


def need_below(s: Snapshot, prefix: str) -> None:
    """Go on only where nothing of a stack lies below the top that was loaded.

    Raises:
        Incomplete: something does.
    """
    if s.extent is not Extent.ALL and s.stacks[prefix]:
        raise Incomplete(Extent.ALL)
