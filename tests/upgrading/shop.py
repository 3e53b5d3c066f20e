"""An app that both releases run: copied beside neither, it imports the `celery_saga` that it is given.

As a program it does what its words say, and prints the ids of the runs that it has started, by their orders.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg2
from celery import Celery, shared_task

from celery_saga import CelerySaga, Retry, Run, current_step, saga, step

CODE, FOLDER = os.environ["SHOP_CODE"], Path(os.environ["SHOP_FOLDER"])
"""Which release this process runs, for the ledger; where files hold steps back."""

app = Celery("upgraded_shop")
app.set_default()
app.conf.update(json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app)


class Refused(Exception):
    """Declared by the sagas that are undone."""


def _act(name: str) -> str:
    """One row in the outside world; before it, a hold for as long as there is a file that says so."""
    place = f"{current_step.run_key}.{current_step.step}".replace("/", ":")
    while (FOLDER / f"hold.{place}").exists():
        (FOLDER / f"held.{place}").touch()
        threading.Event().wait(0.02)
    with psycopg2.connect(os.environ["SHOP_LEDGER"]) as connection, connection.cursor() as cursor:
        row = (current_step.run_id, current_step.step, current_step.idempotency_key, CODE)
        cursor.execute("INSERT INTO fx (run, step, token, code) VALUES (%s, %s, %s, %s)", row)
    connection.close()
    return name


@shared_task(name="upgraded.do")
def do(name: str) -> str:
    return _act(name)


@shared_task(name="upgraded.shaky")
def shaky(name: str) -> str:
    if current_step.attempt < 3:
        raise ConnectionError(name)
    return _act(name)


@shared_task(name="upgraded.undo")
def undo(name: str) -> None:
    _act(name)


def _do(name: str) -> Any:
    return step(do.si(name), name=name, undo=undo.si(name))


@saga(key="{order}")
def waiting(run: Run, order: str) -> list[str]:
    first = run.step(_do("a"))
    word = run.wait_signal("go")
    return [first, word, run.step(_do("b"))]


@saga(key="{order}")
def sleeping(run: Run, order: str) -> str:
    run.step(_do("a"))
    run.sleep(4)
    return run.step(_do("b"))


@saga(key="{order}")
def working(run: Run, order: str) -> list[str]:
    tried = run.step(shaky.si("s"), name="s", retry=Retry(max_attempts=3, delay=0.2))
    return [tried, *(run.step(_do(name)) for name in "abcdef")]


@saga(key="{order}", dispatch="inline")
def inline(run: Run, order: str) -> list[str]:
    return [run.step(_do(name)) for name in "abcdef"]


@saga(key="{order}", errors=[Refused])
def undone(run: Run, order: str) -> None:
    for name in "abc":
        run.step(_do(name))
    raise Refused(order)


@saga(key="{order}")
def several(run: Run, order: str) -> list[Any]:
    parts = run.group([_do("a"), _do("b"), _do("c")])
    return [parts, run.map(lambda run, name: run.step(_do(name)), ["d", "e"])]


@saga(key="{order}")
def parent(run: Run, order: str) -> list[Any]:
    return [run.child(waiting, f"{order}-child"), run.step(_do("b"))]


SAGAS = {each.name: each for each in (waiting, sleeping, working, inline, undone, several, parent)}


def main(words: list[str]) -> None:
    """`migrate` does what is to be done to the tables, `go=ID` signals a run, `waiting=3` starts three.

    The saga's name may have a prefix, for the orders: `new.working=3`.
    """
    started = {}
    for word in words:
        told, _, count = word.partition("=")
        if told == "migrate":
            app.saga.migrate()
        elif told == "go":
            app.saga.get(count).signal("go", "on")
        else:
            orders = [f"{told}{number}" for number in range(int(count))]
            started |= {order: SAGAS[told.rpartition(".")[2]].start(order).id for order in orders}
    print(json.dumps(started))


if __name__ == "__main__":
    main(sys.argv[1:])
