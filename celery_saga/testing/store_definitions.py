"""What a store must keep about definitions that are data."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from datetime import timedelta

from celery_saga.store import SqlStore
from celery_saga.testing.samples import new_id
from celery_saga.testing.team import Team


# What racers do: a function of this module, so that it travels to other processes.
def put(store: SqlStore, name: str, digest: str) -> str:
    """The digest that is stored under the name after this one was given."""
    return store.put_definition(name, 1, digest=digest, graph_text=digest).digest


class StoreDefinitions:
    """Needs the fixtures `store` (migrated, empty) and `team` (racers on it)."""

    def test_a_definition_comes_back_as_it_was_given(self, store: SqlStore) -> None:
        text = '{"name":"pay","start":"' + "ä" * 100_000 + '"}'

        stored = store.put_definition("pay", 3, digest="d", graph_text=text)

        assert (stored.name, stored.version, stored.digest, stored.graph_text) == ("pay", 3, "d", text)
        assert abs(stored.created_at - store.now()) < timedelta(seconds=5)
        assert store.definition("pay", 3) == stored

    def test_a_definition_is_written_once_and_what_was_first_stays(self, store: SqlStore) -> None:
        first = store.put_definition("pay", 1, digest="first", graph_text="1")

        second = store.put_definition("pay", 1, digest="second", graph_text="2")

        assert second == first
        assert store.definition("pay", 1) == first

    def test_names_and_versions_of_definitions_are_told_apart_to_the_letter(self, store: SqlStore) -> None:
        for name in ("pay", "Pay", "payé", "pay "):
            store.put_definition(name, 1, digest=name, graph_text="{}")

        found = [store.definition(name, version) for name, version in (("pay", 1), ("Pay", 1), ("pay", 2), ("pa", 1))]

        assert [None if each is None else each.digest for each in found] == ["pay", "Pay", None, None]

    def test_of_racing_definitions_all_see_the_same_one(self, store: SqlStore, team: Team) -> None:
        name = new_id()

        answers = team.race([(put, (name, f"d{n}")) for n in range(team.size)])

        there = store.definition(name, 1)
        assert there is not None
        assert set(answers) == {there.digest}
