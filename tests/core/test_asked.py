"""Names: everybody who asks for one takes and refuses the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_saga import Lane, Signal
from celery_saga.client import sent
from celery_saga.core.asked import MAX_NAME, is_name
from celery_saga.definition.names import check_name
from celery_saga.engine.lanes import row_name
from celery_saga.errors import SagaError

ASKERS: dict[str, Callable[[str], object]] = {
    "check_name": lambda name: check_name(name, "name="),
    "Lane": Lane,
    "Signal": Signal,
    "a verb's lane=": lambda name: row_name(saga=None, lane=name),
    "a verb's saga=": lambda name: row_name(saga=name, lane=None),
    "a sender's signal": lambda name: sent.check(name, None, id=None, error=None),
}
GOOD = ("a", "x" * MAX_NAME, "tenant: Ärzte & Söhne", " a ")
BAD = ("", " ", "x" * (MAX_NAME + 1), "a\nb", "a\x00", "a\x85b", "a\ud800")


@pytest.mark.parametrize("asker", ASKERS)
def test_everybody_who_asks_for_a_name_takes_and_refuses_the_same(asker: str) -> None:
    for name in GOOD:
        assert is_name(name)
        ASKERS[asker](name)

    for name in BAD:
        assert not is_name(name)
        with pytest.raises(SagaError, match="control character"):
            ASKERS[asker](name)


@pytest.mark.parametrize("given", [None, 1, b"a", ["a"]], ids=["None", "number", "bytes", "list"])
def test_what_is_no_text_is_no_name(given: object) -> None:
    assert not is_name(given)
