"""The project as it is to be deployed next: `order` only in a new version, `careful` with a step more in front."""

from __future__ import annotations

from decimal import Decimal

from celery import Celery

from celery_saga import CelerySaga, Run, saga
from tests.cli import project

app = Celery("next_project")
app.conf.update(
    broker_url="memory://",
    task_always_eager=True,
    saga_database_url=project.app.conf.saga_database_url,
    saga_sagas=[f"tests.cli.next_project:{name}" for name in ("order", "fragile", "careful")],
)
CelerySaga(app)
fragile = project.fragile


@saga(name="order", version=2, key="{line.sku}", signals=[project.APPROVAL], errors=[project.TooDear])
def order(run: Run, line: project.Line) -> Decimal:
    """The next version."""
    price: Decimal = run.step(project.price.si(line.count))
    return price


def _next() -> object:
    @saga(name="careful", errors=[project.TooDear], on_failure="suspend")
    def careful(run: Run, count: int) -> str:
        """Reserves first."""
        run.step(project.reserve.si("x"))
        return str(run.step(project.price.si(count)))

    return careful


careful = _next()
