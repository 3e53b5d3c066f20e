"""What type checkers refuse: each marked line, and no other; never run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from celery_saga import Run, Signal, saga, step
from tests.typing.shop import APPROVAL, Approval, Order, charge, checkout, count, letter, parcel, recount, refund


def body(run: Run) -> None:
    run.step(charge.si("key"))  # type: ignore[call-arg]
    run.step(charge.si("key", "500"))  # type: ignore[arg-type]
    run.step(charge)  # type: ignore[arg-type]
    run.step(charge.delay("key", 500))  # type: ignore[arg-type]
    run.step(charge.si("key", 500), undo=recount)  # type: ignore[arg-type]
    run.step(charge.si("key", 500), undo="refund")  # type: ignore[arg-type]
    run.step(charge.si("key", 500), undo_unknown="maybe")  # type: ignore[arg-type]
    run.step(charge.si("key", 500), retry=3)  # type: ignore[arg-type]
    step(charge.si("key", 500), undo=recount)  # type: ignore[arg-type]
    run.sleep("1 day")  # type: ignore[arg-type]
    run.on_undo(refund)  # type: ignore[arg-type]
    answer: int = run.wait_signal(APPROVAL)  # type: ignore[assignment]
    charge_id: int = run.step(charge.si("key", 500))  # type: ignore[assignment]
    del answer, charge_id


def joins(run: Run, order: Order) -> None:
    run.group(charge)  # type: ignore[arg-type]
    run.group(charge.si("key"))  # type: ignore[call-arg]
    run.group(charge.delay("key", 500))  # type: ignore[call-overload]
    run.group(charge.si("key", 500), checkout)  # type: ignore[call-overload]
    run.group([charge.si("key", 500)], concurrency="2")  # type: ignore[call-overload]
    run.group([charge.si("key", 500)], on_failure="ignore")  # type: ignore[call-overload]
    pair = run.group(charge.si("key", 1), charge.si("key", 2))
    number: int = pair[1]  # type: ignore[assignment]
    run.map(count, [1, 2])  # type: ignore[arg-type]
    run.map(charge, ["key"])  # type: ignore[arg-type]
    run.map(count, ["ch_1"], undo=refund)  # type: ignore[misc]
    run.map(letter, ["three"])  # type: ignore[arg-type]
    run.map(count, 3)  # type: ignore[call-overload]
    numbers: list[str] = run.map(count, ["ch_1"])  # type: ignore[arg-type]
    run.race(charge.si("key", 1))  # type: ignore[call-overload]
    run.race(late="1 day")  # type: ignore[call-overload]
    sure: Approval = run.race(approval=APPROVAL, late=5).value  # type: ignore[assignment]
    checkout(order)  # type: ignore[operator]
    del number, numbers, sure


def client() -> None:
    checkout.start()  # type: ignore[call-arg]
    checkout.start("o1")  # type: ignore[arg-type]
    checkout.start(Order("o1", 500), gift="yes")  # type: ignore[arg-type]
    checkout.start(Order("o1", 500), color="red")  # type: ignore[call-arg]
    checkout.run_id(7)  # type: ignore[arg-type]
    checkout.options(if_exists="replace")  # type: ignore[call-overload]
    handle = checkout.start(Order("o1", 500))
    receipt: str = handle.wait()  # type: ignore[assignment]
    handle.signal(APPROVAL, "yes")  # type: ignore[misc]
    handle.signal(APPROVAL)  # type: ignore[call-overload]
    handle.signal(APPROVAL, Approval(True), error=ValueError())  # type: ignore[call-overload]
    handle.resolve_undo("charge", outcome="lost")  # type: ignore[arg-type]
    del receipt


def declared() -> None:
    parcel.start()  # type: ignore[call-arg]
    parcel.start("o1")  # type: ignore[arg-type]
    letter.start("three")  # type: ignore[arg-type]
    letter.start(pages=3, ink="blue")  # type: ignore[call-arg]
    text: int = letter.start(3).wait()  # type: ignore[assignment]
    del text

    @letter.handler  # type: ignore[arg-type]
    def written(run: Run, pages: str) -> str:
        return pages

    @letter.handler  # type: ignore[arg-type]
    def counted(run: Run, pages: int) -> int:
        return pages


def children(run: Run) -> None:
    run.child(checkout)  # type: ignore[call-arg]
    run.child(checkout, "o1")  # type: ignore[arg-type]
    checkout.s(7)  # type: ignore[arg-type]
    number: int = run.child(checkout, Order("o1", 500))  # type: ignore[assignment]
    del number


def definitions() -> None:
    Signal(3)  # type: ignore[call-overload]

    @saga  # type: ignore[arg-type]
    def without_run(order: Order) -> None: ...

    @saga(on_bug="ignore")  # type: ignore[call-overload, untyped-decorator]
    def on_bug(run: Run) -> None: ...
