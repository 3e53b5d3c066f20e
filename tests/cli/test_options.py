"""What options of commands take, and what they refuse before anything is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from celery_saga import CelerySaga, DefinitionError, Lane
from celery_saga.cli.standalone import cli
from celery_saga.core.admission import LaneSpec
from celery_saga.runtime.services import per_process
from celery_saga.runtime.settings import checked
from tests.cli.database import with_tables
from tests.http.project import app
from tests.sealing.keys import FIRST, SECOND, Keys

LINE = ("--arg", 'item={"sku": "a1"}')


@pytest.fixture
def extension(tmp_path: Path) -> Iterator[CelerySaga]:
    """The project on a database of its own."""
    before = app.conf.saga_database_url
    per_process(app).close()
    app.conf.saga_database_url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    yield CelerySaga.of(app)
    per_process(app).close()
    app.conf.saga_database_url = before
    app.conf.saga_codec = None


@pytest.fixture
def call(extension: CelerySaga) -> Callable[..., Result]:
    def call(name: str, *words: str) -> Result:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        return CliRunner().invoke(command, words, obj=SimpleNamespace(app=app, no_color=True))

    return call


def test_a_start_takes_the_options_of_runs(call: Callable[..., Result]) -> None:
    said = ("--priority", "7", "--lane", "bank", "--tag", "red", "--tag", "blue", "--deadline", "3600")

    later = json.loads(call("start", "purchase", *LINE, *said, "--countdown", "60", "--json").stdout)
    eta = json.loads(call("start", "lingering", "--args", '["x"]', "--eta", "2999-01-01", "--json").stdout)

    assert (later["priority"], later["lane"], sorted(later["tags"])) == (7, "bank", ["blue", "red"])
    assert (later["status"], later["started_at"], eta["started_at"]) == ("queued", None, None)
    assert later["wake_at"] > later["created_at"] and later["deadline_at"] is not None
    assert eta["wake_at"].startswith("2999-01-01")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *((("--wait", value), 2) for value in ("nan", "inf", "-1", "x", "1e300")),
        *((("--countdown", value), 2) for value in ("nan", "-1")),
        *((("--deadline", value), 2) for value in ("nan", "inf")),
        (("--eta", "0001-01-01T00:00:00+14:00"), 2),
        (("--eta", "9999-12-31T23:59:59-14:00"), 2),
        (("--priority", "-1"), 1),
        (("--tag", ""), 1),
        (("--lane", ""), 1),
        (("--countdown", "1", "--eta", "2999-01-01"), 1),
        (("--arg", 'item={"sku": "a1", "sku": "a2"}'), 2),
    ],
)
def test_a_start_that_is_refused_has_started_nothing(
    extension: CelerySaga, call: Callable[..., Result], words: tuple[str, ...], code: int
) -> None:
    done = call("start", "purchase", *(() if "--arg" in words else LINE), *words)

    assert (done.exit_code, list(extension.runs())) == (code, []), done.output


@pytest.mark.parametrize("option", ["--cap", "--limit"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "9999999999", "1.5"])
def test_set_lane_takes_no_zero_which_would_lift_the_cap(
    extension: CelerySaga, call: Callable[..., Result], option: str, value: str
) -> None:
    extension.set_lane("bank", cap=3)

    done = call("set-lane", "--lane", "bank", option, value, "--window", "1")

    assert done.exit_code == 2
    assert "write none for any number" in done.output
    assert [lane.cap for lane in extension.lanes()] == [3]


def test_set_lane_lifts_a_cap_and_a_limit_by_a_word(extension: CelerySaga, call: Callable[..., Result]) -> None:
    extension.set_lane("bank", cap=3, limit=5, window=60)

    lifted = json.loads(call("set-lane", "--lane", "bank", "--cap", "none", "--limit", "none", "--json").stdout)

    assert (lifted["cap"], lifted["limit"]) == (None, None)


def test_lanes_are_a_document_a_line(extension: CelerySaga, call: Callable[..., Result]) -> None:
    extension.set_lane("bank", cap=3)
    extension.set_lane("post", cap=1)

    told = call("lanes", "--json").stdout.splitlines()

    assert [json.loads(line)["name"] for line in told] == ["bank", "post"]


def test_reencrypt_tells_the_place_and_fails_where_something_cannot_be_read(
    extension: CelerySaga, call: Callable[..., Result]
) -> None:
    keys = Keys(FIRST)
    app.conf.saga_codec = keys
    per_process(app).close()
    for sku in ("a1", "a2"):
        assert call("start", "purchase", "--arg", f'item={{"sku": "{sku}"}}').exit_code == 0

    good = call("reencrypt", "--batch", "1")
    places = [line.partition("--after ")[2].strip("'") for line in good.stdout.splitlines() if "--after" in line]
    rest = call("reencrypt", "--batch", "100", "--after", places[-1])
    keys.use(SECOND)
    bad = call("reencrypt", "--batch", "100")

    assert (good.exit_code, rest.exit_code, bad.exit_code) == (0, 0, 1)
    assert len(places) > 2 and all(isinstance(json.loads(place), list) for place in places)
    assert len(rest.stdout.splitlines()) < len(good.stdout.splitlines())
    assert "cannot be read" in bad.stdout
    assert bad.stderr.startswith("PAYLOAD_UNREADABLE: ")


def test_lanes_of_the_setting_are_words_or_lanes() -> None:
    said = checked({"lanes": {"bank": Lane("bank", cap=4, hold="life"), "post": {"cap": None}}})

    assert said["lanes"] == {"bank": LaneSpec(cap=4, hold="life"), "post": LaneSpec(cap=None)}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Lane("other", cap=4), r"saga_lanes\['bank'\] is a Lane with another name: 'other'"),
        (4, r"saga_lanes\['bank'\] must be a Lane, or a mapping like {'cap': 4}, got 4"),
        ({"caps": 4}, r"saga_lanes\['bank'\] has the unknown word 'caps'; there are cap, hold, limit, window"),
        ({"cap": 0}, r"saga_lanes\['bank'\]: lane 'bank': cap= must be a whole number from 1"),
    ],
)
def test_lanes_of_the_setting_that_are_none_are_refused_by_name(said: object, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        checked({"lanes": {"bank": said}})
