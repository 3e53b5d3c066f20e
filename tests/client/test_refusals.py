"""Wrong values are refused by name, with a code, and nothing is changed: one table of calls, whole kinds of values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, Lane, Retry, Run, RunHandle, Saga, Signal, saga
from celery_saga.core import asked
from celery_saga.errors import DefinitionError, InvalidPayload, ResultPurged, SagaError, UnknownSaga

FLAGS: list[Any] = [None, 0, 1, "", "x", "false", [], {}]
NUL = "a\x00b"
LONG = "x" * 5000
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))
NO_TEXT: list[Any] = [0, b"b", [], {}, True, NUL, "\ud800"]
NO_COUNT: list[Any] = ["x", 0, -1, 1.5, True, [], float("nan")]

Call = Callable[["Shop", Any], object]


class Shop:
    """An eager app with a run that waits, and a schedule."""

    def __init__(self) -> None:
        self.app = Celery("refusals", set_as_current=False)
        self.app.conf.update(task_always_eager=True, broker_url="memory://")
        self.saga = CelerySaga(self.app, database_url="sqlite://", sagas=[waits, fails, free])
        self.saga.migrate()
        self.run = self.start(waits)
        self.schedule = self.scheduled("known", every=3600)

    def start(self, made: Saga[..., Any], *args: Any, **options: Any) -> RunHandle[Any]:
        return (made.options(**options) if options else made).start_at(self.saga, *args)

    def scheduled(self, id_: Any, **said: Any) -> Any:
        from celery_saga.definition.scheduling import wanted  # noqa: PLC0415

        book = self.saga.engine.schedules
        record, _ = book.put(wanted(waits, id_, said, book))
        return self.saga.find_schedule(record.saga, record.id)

    def seen(self) -> object:
        """All that a refused call could have changed."""
        store = self.saga.store
        runs = [store.load(run.id) for run in self.saga.runs(limit=1000)]
        states = [
            (x.snapshot.run, store.history(x.snapshot.run.id), store.signals(x.snapshot.run.id)) for x in runs if x
        ]
        return states, store.schedules(), store.lanes()


@saga(name="refusals.waits", key=None)
def waits(run: Run) -> None:
    run.wait_signal("go")


@saga(name="refusals.fails", key="{order}")
def fails(run: Run, order: str) -> str:
    if order.startswith("bad"):
        raise LookupError(order)
    return order


def _breaks(order: str) -> str:
    return str(1 / 0)


@saga(name="refusals.free")
def free(run: Run, order: str = "") -> str:
    return order


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.saga.store.close()


def _of(name: str, call: Callable[..., Any], wrong: list[Any], **given: Any) -> list[Any]:
    """Each wrong value for one argument of a call that is got from the shop."""
    return [
        pytest.param(lambda shop, bad: call(shop)(**{**given, name: bad}), value, id=f"{call.__name__}-{name}-{n}")
        for n, value in enumerate(wrong)
    ]


def _named(name: str, find: Callable[[Shop], Any]) -> Callable[[Shop], Any]:
    find.__name__ = name
    return find


bulk = _named("bulk", lambda s: lambda **k: s.saga.bulk(k.pop("verb", "cancel"), **{"saga": waits.name, **k}))
bulk_signal = _named(
    "bulk_signal", lambda s: lambda **k: s.saga.bulk_signal(k.pop("signal", "go"), **{"saga": waits.name, **k})
)
purge = _named("purge", lambda s: lambda **k: s.saga.purge(**{"older_than": 1, **k}))
redispatch = _named("redispatch", lambda s: s.saga.redispatch)
cancel = _named("cancel", lambda s: s.run.cancel)
runs = _named("runs", lambda s: s.saga.runs)
desk = _named("desk", lambda s: s.saga.desk)
pause = _named("pause", lambda s: lambda **k: s.saga.pause(**({"saga": "*"} if "lane" not in k else {}), **k))
set_lane = _named("set_lane", lambda s: s.saga.set_lane)
fires = _named("fires", lambda s: s.schedule.fires)
pause_schedule = _named("pause_schedule", lambda s: s.schedule.pause)
find_schedule = _named("find_schedule", lambda s: lambda **k: s.saga.find_schedule(**{"saga": waits, "id": "n", **k}))
unschedule = _named("unschedule", lambda s: lambda **k: s.saga.unschedule(**{"saga": waits, "id": "n", **k}))
events = _named("events", lambda s: lambda after: next(s.run.events(after)))
events_async = _named("events_async", lambda s: lambda after: asyncio.run(anext(s.run.events_async(after))))
schedule = _named("schedule", lambda s: lambda **k: s.scheduled("new", **{"every": 60, **k}))
at = _named("schedule_at", lambda s: lambda at: s.scheduled("new", at=at))
options = _named("options", lambda s: waits.options)
check = _named("check", lambda s: s.saga.check)
get = _named("get", lambda s: s.saga.get)
export = _named("export", lambda s: s.saga.export)

INVALID = [
    *_of("dry_run", bulk, FLAGS),
    *_of("compensate", bulk, FLAGS, dry_run=False),
    *_of("verb", bulk, [[], None, 0, {}, "signal"]),
    *_of("reason_code", bulk, [[], 0, "nope", ""]),
    *_of("status", bulk, ["nope", 0]),
    *_of("attention", bulk, ["x", 1, ""]),
    *_of("dry_run", bulk_signal, FLAGS),
    *_of("signal", bulk_signal, [None, 0, b"b", [], NUL, "", LONG]),
    *_of("id", bulk_signal, ["x" * 300, "", 0, [], NUL]),
    *_of("id", bulk_signal, ["x" * 300, "", 0, [], NUL], dry_run=False),
    *_of("value", bulk_signal, [object()]),
    *_of("dry_run", purge, FLAGS),
    *_of("keep_keys", purge, FLAGS),
    *_of("saga", purge, NO_TEXT),
    *_of("older_than", purge, [EARLY, LATE, 1e15, timedelta.max]),
    *_of("dry_run", redispatch, FLAGS),
    *_of("again", redispatch, FLAGS),
    *_of("saga", redispatch, NO_TEXT),
    *_of("queue", redispatch, NO_TEXT),
    *_of("compensate", cancel, FLAGS),
    *(each for flag in ("attention", "stuck", "purged") for each in _of(flag, runs, FLAGS)),
    *(each for name in ("saga", "key", "lane", "tag", "after") for each in _of(name, runs, NO_TEXT)),
    *_of("since", runs, [EARLY, LATE, datetime(2026, 1, 1)]),  # noqa: DTZ001
    *_of("until", runs, [EARLY, LATE, "x"]),
    *_of("limit", runs, NO_COUNT),
    *_of("after", desk, [b"b", 0, "x", f"2026-01-01T00:00:00+00:00~{NUL}", "0001-01-01T00:00:00+14:00~x"]),
    *_of("saga", desk, NO_TEXT),
    *_of("limit", fires, [None, *NO_COUNT]),
    *_of("saga", find_schedule, [None, *NO_TEXT]),
    *_of("id", find_schedule, [None, *NO_TEXT]),
    *_of("saga", unschedule, [None, *NO_TEXT]),
    *_of("id", unschedule, [None, *NO_TEXT]),
    *_of("after", events, ["x", b"b", [], True, -1, 1.5, float("nan"), "\ud800", 2**70]),
    *_of("after", events_async, ["x", True, -1]),
    *_of("run_id", get, [None, *NO_TEXT]),
    *_of("run_id", export, [None, *NO_TEXT]),
    *_of("args", schedule, [0, "", {}, "x"]),
    *_of("kwargs", schedule, [0, "", [], "x"]),
    *(
        each
        for verb in ("cancel", "suspend", "resume", "compensate", "retry")
        for name in ("reason", "by")
        for each in _of(name, _named(verb, lambda s, verb=verb: getattr(s.run, verb)), [*NO_TEXT, "x" * 20_000])
    ),
    *(
        each
        for verb in ("retry_undo", "resolve_undo", "skip")
        for each in _of("step", _named(verb, lambda s, verb=verb: getattr(s.run, verb)), [None, "", *NO_TEXT])
    ),
    *(
        each
        for verb in ("retry_undo", "resolve_undo", "skip")
        for each in _of("reason", _named(verb, lambda s, verb=verb: getattr(s.run, verb)), NO_TEXT, step="x")
    ),
    *_of("from_step", _named("retry", lambda s: s.run.retry), ["", *NO_TEXT]),
    *_of("reason", bulk, NO_TEXT),
    *_of("by", bulk, NO_TEXT),
    *_of("reason", pause, NO_TEXT),
    *_of("by", pause, NO_TEXT),
    *_of("reason", pause_schedule, NO_TEXT),
    *_of("by", pause_schedule, NO_TEXT),
]

DEFINITION = [
    *_of("lane", pause, ["", " ", "x" * 250, "a\nb", *NO_TEXT]),
    *_of("lane", set_lane, ["", "x" * 250, "a\nb", *NO_TEXT], cap=1),
    *_of("saga", set_lane, ["", "x" * 250, *NO_TEXT], cap=1),
    *_of("window", set_lane, [timedelta.max, 1e15], lane="a", limit=1),
    *_of("eta", options, [EARLY, LATE, "x"]),
    *_of("countdown", options, [1e15, timedelta.max, -1, "x"]),
    *_of("deadline", options, [1e15, timedelta.max, 0]),
    *_of("detached", options, [0, "", "x", []]),
    *_of("at", at, [EARLY, LATE, "x"]),
    *_of("every", schedule, [1e12, timedelta.max, 0]),
    *_of("bogus", check, [1]),
    *_of("nodes", check, ["x", 0, True]),
]


@pytest.mark.parametrize(("call", "bad"), INVALID)
def test_a_wrong_value_is_an_invalid_argument(shop: Shop, call: Call, bad: Any) -> None:
    _refused(shop, call, bad, InvalidPayload, "INVALID_ARGUMENT")


@pytest.mark.parametrize(("call", "bad"), DEFINITION)
def test_a_wrong_option_is_a_definition_error(shop: Shop, call: Call, bad: Any) -> None:
    _refused(shop, call, bad, DefinitionError, "DEFINITION_ERROR")


def _refused(shop: Shop, call: Call, bad: Any, kind: type[SagaError], code: str) -> None:
    before = shop.seen()
    with pytest.raises(kind) as caught:
        call(shop, bad)
    assert caught.value.code == code
    assert len(str(caught.value)) < 1000
    assert "nothing was" in str(caught.value)
    assert shop.seen() == before


# -- the words of refusals ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.saga.runs(saga=NUL), "runs(): saga= must be text without NUL"),
        (lambda s: s.saga.bulk("cancel", status="nope"), "bulk cancel: status= must be of"),
        (lambda s: s.saga.bulk("cancel", saga=NUL), "bulk cancel: saga="),
        (lambda s: s.saga.bulk("cancel", dry_run=None, saga="x"), "bulk cancel: dry_run= must be True or False"),
        (lambda s: waits.options(countdown=1e15), "at most 3.2e+11 s (10,000 years)"),
        (lambda s: s.saga.runs(until=LATE), "years 1 to 9999"),
        (lambda s: s.saga.get(NUL), "a run id"),
        (lambda s: s.saga.runs(status=LONG), "(5002 characters)"),
        (lambda s: s.saga.pause(lane=LONG), "(5002 characters)"),
    ],
)
def test_a_refusal_says_which_argument_of_which_call(shop: Shop, call: Callable[[Shop], object], said: str) -> None:
    with pytest.raises(SagaError) as caught:
        call(shop)
    assert said in str(caught.value)
    assert LONG not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.saga.runs(bogus=1), "CelerySaga.runs()"),
        (lambda s: s.saga.purge(older_than=1, bogus=1), "CelerySaga.purge()"),
        (lambda s: s.saga.pause(bogus=1), "CelerySaga.pause()"),
        (lambda s: s.run.cancel(bogus=1), "RunHandle.cancel()"),
        (lambda s: s.run.wait(bogus=1), "RunHandle.wait()"),
        (lambda s: waits.schedule("x", bogus=1), "Saga.schedule()"),
    ],
)
def test_a_wrong_keyword_is_told_of_the_class_that_people_know(
    shop: Shop, call: Callable[[Shop], object], said: str
) -> None:
    with pytest.raises(TypeError, match="bogus") as caught:
        call(shop)
    assert said in str(caught.value)


def test_a_shown_value_is_cut_and_never_fails() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    assert asked.shown("x") == "'x'"
    assert len(asked.shown(LONG)) < 200
    assert asked.shown(Bad()) == "an object of Bad"


# -- definitions --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bad", [5, "x", object()])
def test_only_a_celery_app_gets_sagas(bad: Any) -> None:
    with pytest.raises(DefinitionError, match="Celery app"):
        CelerySaga(bad)


@pytest.mark.parametrize("bad", [5, -1, 2, 1.5])
def test_saga_events_is_true_false_or_names(bad: Any) -> None:
    with pytest.raises(DefinitionError, match="saga_events"):
        CelerySaga(events=bad)


@pytest.mark.parametrize("bad", [None, 0, "", "x", []])
def test_flags_of_steps_and_policies_are_flags(bad: Any) -> None:
    from celery_saga.definition.step import options as step_options  # noqa: PLC0415

    for name in ("transactional", "pivot", "remote"):
        with pytest.raises(DefinitionError, match=f"{name}="):
            step_options("step()", **{name: bad})
    with pytest.raises(DefinitionError, match="jitter="):
        Retry(jitter=bad)


@pytest.mark.parametrize("what", ["lane", "key"])
def test_what_a_function_that_names_a_lane_or_key_raises_reaches_the_caller_as_it_is(shop: Shop, what: str) -> None:
    @saga(name=f"refusals.broken_{what}", **{what: _breaks})
    def broken(run: Run, order: str) -> None: ...

    before = shop.seen()
    with pytest.raises(ZeroDivisionError):
        broken.start_at(shop.saga, "a")
    assert shop.seen() == before


def test_a_signal_whose_name_has_a_control_character_is_refused_everywhere(shop: Shop) -> None:
    for bad in (NUL, "a\nb", "\ud800"):
        with pytest.raises(InvalidPayload, match="name"):
            shop.run.signal(bad)
        with pytest.raises(DefinitionError):
            Signal(bad)
        with pytest.raises(DefinitionError):
            Lane(bad)


# -- lanes --------------------------------------------------------------------------------------------------------
def test_a_saga_that_nobody_knows_has_no_cap_and_no_pause(shop: Shop) -> None:
    before = shop.seen()
    for call in (lambda: shop.saga.pause(saga="typo"), lambda: shop.saga.set_lane(saga="typo", cap=1)):
        with pytest.raises(UnknownSaga, match=r"'typo'.*nothing was changed") as caught:
            call()
        assert caught.value.code == "UNKNOWN_SAGA"
    assert shop.seen() == before


def test_a_saga_that_only_the_tables_know_can_be_paused(shop: Shop) -> None:
    @saga(name="refusals.elsewhere")
    def elsewhere(run: Run) -> None:
        run.wait_signal("go")

    elsewhere.start_at(shop.saga)
    assert shop.saga.registry.latest("refusals.elsewhere") is None
    try:
        assert shop.saga.pause(saga="refusals.elsewhere").paused_at is not None
    finally:
        shop.saga.unpause(saga="refusals.elsewhere")


# -- what was purged ----------------------------------------------------------------------------------------------
def test_restart_failed_finds_a_purged_completed_run_as_it_finds_a_kept_one() -> None:
    shop = Shop()
    try:
        done = shop.start(fails, "good")
        failed = shop.start(fails, "bad")
        failed.cancel(compensate=False)
        assert (done.status, failed.status) == ("completed", "cancelled")
        shop.saga.purge(older_than=1e-6)
        again = shop.start(fails, "good", if_exists="restart_failed")
        assert (again.created, again.id, again.status) == (False, done.id, "completed")
        with pytest.raises(ResultPurged):
            shop.start(fails, "bad", if_exists="restart_failed")
        for handle in (again, failed.refresh()):
            with pytest.raises(ResultPurged):
                _ = handle.result
            with pytest.raises(ResultPurged):
                _ = handle.error
    finally:
        shop.saga.store.close()


def test_instants_with_bounds_are_still_taken(shop: Shop) -> None:
    assert len(shop.saga.runs(since=datetime.min.replace(tzinfo=UTC), until=datetime.max.replace(tzinfo=UTC))) >= 1
