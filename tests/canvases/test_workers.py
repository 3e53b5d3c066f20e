"""Durable canvases on real workers, which have nothing of them but the tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery import chain, chord, group

from celery_saga import RunFailed, step
from tests.runtime.places import place_with

pytestmark = pytest.mark.servers


def test_a_canvas_of_a_client_is_executed_and_undone_by_workers_that_never_saw_it(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, module="tests.canvases.bakery") as place:
        shop = place.shop
        with place.worker(concurrency=1):
            kneaded = step(shop.knead.s(2), undo=shop.give_away)
            baked = shop.app.saga.durable(chain(kneaded, shop.bake.map(["one", "two"]), shop.deliver.s("town")))
            lost = shop.app.saga.durable(chain(kneaded, shop.deliver.s("nowhere")))

            assert baked.delay(flour="spelt").get(timeout=15) == "2 to town"
            with pytest.raises(RunFailed) as failed:
                lost.delay().get(timeout=15)

    assert isinstance(failed.value.cause, LookupError)
    assert place.calls() == [
        *("knead 2 spelt", "bake one", "bake two", "deliver 2 town"),
        *("knead 2 rye", "deliver 2 nowhere", "give away 2"),
    ]


def test_groups_and_chords_need_no_result_backend(tmp_path: Path) -> None:
    with place_with("rabbitmq", tmp_path, module="tests.canvases.bakery") as place:
        shop = place.shop
        deep = chain(shop.knead.s(1), group(shop.deliver.s("a"), shop.deliver.s("b")), shop.deliver.s("c"))
        canvas = group(deep, chain(shop.knead.si(3), shop.deliver.s("d")), shop.bake.chunks([("x",), ("y",)], 1))
        with place.worker(concurrency=2):
            assert shop.app.conf.result_backend is None
            answer = shop.app.saga.durable(canvas | shop.deliver.s("all")).delay()
            given = shop.app.saga.durable(chord([step(shop.knead.s(1), undo=shop.give_away), deep], shop.bake.s()))

            assert answer.get(timeout=20) == "3 to all"
            assert given.delay(0).get(timeout=20) == "baked [[], '2 to c']"

    assert sorted(line.split()[0] for line in place.calls()) == sorted(
        ["knead"] * 2 + ["deliver"] * 5 + ["bake"] * 2 + ["knead"] * 2 + ["deliver"] * 3 + ["bake"]
    )
