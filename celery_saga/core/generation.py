"""A new generation of a run: what lies before the cut is kept, the rest stays archived under the generation before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from celery_saga.core import chords, wakeup
from celery_saga.core.focus import Extent
from celery_saga.core.orders import RunSpec
from celery_saga.core.pivot import is_pivot
from celery_saga.core.records import StepRecord, undo_key
from celery_saga.core.replacing import replace
from celery_saga.core.shield import held
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, StepEvent, next_step_status


def start_over(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Raise the generation, keep what lies before the cut, leave the rest archived under the generation before.

    A deadline that the run has stays; where it has none, that of its saga is counted anew.
    """
    s.need(Extent.ALL)
    cut = set(json.loads(s.run.cut_text or "[]"))
    cut |= {undo_key(key) for key in cut}
    cut -= {x.key for x in s.steps.values() if chords.is_open(x)}
    run = s.run
    generation = run.generation + 1
    deadline_s = RunSpec.from_text(run.spec_text).deadline_s
    kept: dict[str, StepRecord] = {
        x.key: replace(x, generation=generation) for x in s.steps.values() if x.key not in cut
    }
    kept |= {x.key: x for x in _reopened(s, kept, cut)}
    kept |= {x.key: x for x in chords.carried(kept.values(), now, resend_s)}
    s = s.move_run(
        RunEvent.RESTARTED,
        generation=generation,
        restart=False,
        cut_text=None,
        outcome=None,
        skip_undos=False,
        error_text=None,
        error_step=None,
        reason=None,
        result_text=None,
        stalls=0,
        ended_at=None,
        deadline_at=run.deadline_at or (None if deadline_s is None else wakeup.after(now, deadline_s)),
        shields=held(kept),
        pending_text=None,
        pivoted=any(is_pivot(x) for x in kept.values()),
    )
    archived = tuple(x for x in s.steps.values() if x.key in cut)
    return wakeup.wake(replace(s, steps=kept, archived=(*s.archived, *archived)), now, resend_s)


def _reopened(s: Snapshot, kept: dict[str, StepRecord], cut: set[str]) -> Iterator[StepRecord]:
    """Joins that are kept without some of their parts: they wait again, and what is in them is in sight again."""
    missing = Counter(x.join_key for x in s.steps.values() if x.join_key in kept and x.key in cut)
    for key, number in missing.items():
        join = kept[key or ""]
        status = next_step_status(s.run.id, join.key, join.status, StepEvent.REWAITED)
        over: dict[str, Any] = dict.fromkeys(("result_text", "error_text", "ended_at", "seq"))
        yield replace(join, status=status, join_left=number, join_next=0, **over)
        yield from unfolded(kept.values(), join.key)


def unfolded(steps: Iterable[StepRecord], join: str) -> Iterator[StepRecord]:
    """What is in a join and was out of sight, so that passes see it again."""
    return (replace(x, folded=False) for x in steps if x.folded and x.key.startswith(join + "["))
