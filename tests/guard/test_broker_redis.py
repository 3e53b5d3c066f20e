"""Redis: what outlasts the visibility time-out is told, and what the server says of itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from tests.guard.world import add_task, findings, make_app
from tests.servers import PrivateRedis, RedisPlace

VISIBILITY = {
    "REDIS_VISIBILITY_TIMEOUT",
    "REDIS_VISIBILITY_NO_LIMIT",
    "REDIS_VISIBILITY_PREFETCH",
    "REDIS_VISIBILITY_ETA",
    "REDIS_VISIBILITY_ELSEWHERE",
}


@pytest.fixture
def url(redis_place: RedisPlace) -> str:
    return str(redis_place.settings["broker_url"])


def test_a_late_acking_task_that_may_outlast_the_visibility_timeout_is_an_error(url: str) -> None:
    app = make_app(url, broker_transport_options={"visibility_timeout": 300})
    add_task(app, "shop.report", acks_late=True, time_limit=300)

    found = findings(app)["REDIS_VISIBILITY_TIMEOUT"]

    assert found.level.value == "error"
    assert "shop.report" in found.sentence
    assert "300 s" in found.sentence


def test_the_apps_own_time_limit_counts_for_a_task_without_one(url: str) -> None:
    app = make_app(url, task_time_limit=4000)
    add_task(app, "shop.report", acks_late=True)

    assert "REDIS_VISIBILITY_TIMEOUT" in findings(app)


def test_limits_below_the_default_of_an_hour_are_safe(url: str) -> None:
    app = make_app(url)
    add_task(app, "shop.report", acks_late=True, time_limit=3599)
    add_task(app, "shop.mail", time_limit=3599, autoretry_for=(OSError,))

    assert not VISIBILITY & findings(app, step_timeouts_s={"shop.mail": 3599.0}).keys()


def test_another_broker_has_no_visibility_timeout() -> None:
    app = make_app("memory://")
    add_task(app, "shop.report", acks_late=True, time_limit=86_400)

    assert not VISIBILITY & findings(app).keys()


def test_a_late_acking_task_without_any_limit_is_told(url: str) -> None:
    app = make_app(url)
    add_task(app, "shop.report", acks_late=True)

    assert "REDIS_VISIBILITY_NO_LIMIT" in findings(app)


def test_a_step_timeout_above_the_visibility_timeout_holds_prefetched_messages(url: str) -> None:
    app = make_app(url, broker_transport_options={"visibility_timeout": 60})
    add_task(app, "shop.charge")

    assert "REDIS_VISIBILITY_PREFETCH" in findings(app, step_timeouts_s={"shop.charge": 60.0})
    assert "REDIS_VISIBILITY_PREFETCH" not in findings(app, step_timeouts_s={"shop.charge": 59.0})


def test_the_step_timeout_of_the_settings_counts_as_seconds_and_as_a_timedelta(url: str) -> None:
    for long in (3600, timedelta(hours=1)):
        assert "REDIS_VISIBILITY_PREFETCH" in findings(make_app(url, saga_step_timeout=long))
    assert "REDIS_VISIBILITY_PREFETCH" not in findings(make_app(url, saga_step_timeout=60))


@pytest.mark.parametrize(
    "options",
    [
        {"autoretry_for": (OSError,), "default_retry_delay": 90},
        {"autoretry_for": (OSError,), "retry_backoff": True, "retry_backoff_max": 90},
        {"default_retry_delay": 90},
    ],
)
def test_a_retry_that_waits_longer_than_the_visibility_timeout_is_told(url: str, options: dict[str, object]) -> None:
    short = make_app(url, broker_transport_options={"visibility_timeout": 60})
    long = make_app(url, broker_transport_options={"visibility_timeout": 600})
    for app in (short, long):
        add_task(app, "shop.charge", **options)

    assert "shop.charge" in findings(short)["REDIS_VISIBILITY_ETA"].sentence
    assert "REDIS_VISIBILITY_ETA" not in findings(long)


def test_a_beat_entry_with_a_long_countdown_is_told(url: str) -> None:
    entry = {"task": "shop.mail", "schedule": 60.0, "options": {"countdown": 7200}}

    found = findings(make_app(url, beat_schedule={"nightly": entry}))["REDIS_VISIBILITY_ETA"]

    assert "beat entry nightly" in found.sentence


def test_that_others_may_have_another_value_is_told_where_one_is_set(url: str) -> None:
    given = make_app(url, broker_transport_options={"visibility_timeout": 7200})

    assert "cannot be seen from here" in findings(given)["REDIS_VISIBILITY_ELSEWHERE"].sentence
    assert "REDIS_VISIBILITY_ELSEWHERE" not in findings(make_app(url))


def test_an_evicting_redis_is_told_and_one_that_refuses_writes_instead_is_not(
    private_redis: PrivateRedis,
) -> None:
    app = make_app(private_redis.url)
    with redis.Redis.from_url(private_redis.url) as client:
        client.config_set("maxmemory", 10_000_000)
        client.config_set("maxmemory-policy", "allkeys-lru")
        dangerous = findings(app)
        client.config_set("maxmemory-policy", "noeviction")
        safe = findings(app)

    assert "allkeys-lru" in dangerous["REDIS_EVICTION"].sentence
    assert "REDIS_EVICTION" not in safe


def test_a_redis_without_a_disk_is_told_and_one_with_is_not(private_redis: PrivateRedis) -> None:
    app = make_app(private_redis.url)
    with redis.Redis.from_url(private_redis.url) as client:
        dangerous = findings(app)
        client.config_set("save", "60 1")
        safe = findings(app)

    assert "REDIS_NOT_PERSISTENT" in dangerous
    assert "REDIS_NOT_PERSISTENT" not in safe


def test_a_redis_that_refuses_config_is_asked_by_info(private_redis: PrivateRedis) -> None:
    with redis.Redis.from_url(private_redis.url) as client:
        client.config_set("maxmemory", 10_000_000)
        client.config_set("maxmemory-policy", "volatile-lru")
        client.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-config")
    url = private_redis.url.replace("redis://", "redis://app:pw@")

    found = findings(make_app(url))

    assert "volatile-lru" in found["REDIS_EVICTION"].sentence
    assert not {"REDIS_NOT_PERSISTENT", "REDIS_NOT_ASKED"} & found.keys()


def test_a_redis_that_tells_nothing_is_a_finding(private_redis: PrivateRedis) -> None:
    with redis.Redis.from_url(private_redis.url) as client:
        words = ("on", ">pw", "~*", "&*", "+@all", "-config", "-info")
        client.execute_command("ACL", "SETUSER", "app", *words)
    url = private_redis.url.replace("redis://", "redis://app:pw@")

    found = findings(make_app(url))

    assert "REDIS_NOT_ASKED" in found
    assert "BROKER_UNREACHABLE" not in found
    assert "REDIS_NOT_ASKED" not in findings(make_app(private_redis.url))


def test_a_frozen_redis_costs_no_more_than_its_time(private_redis: PrivateRedis) -> None:
    private_redis.freeze()
    try:
        found = findings(make_app(private_redis.url), timeout_s=0.5)
    finally:
        private_redis.thaw()

    assert "BROKER_UNREACHABLE" in found
