"""Streams of one driver keep the rows of a table once, and each finds what it finds alone."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from lockstep.pipeline.plan import PlannedTable
from lockstep.streams.versions import SharedVersions, TableVersions, Version

from tests.plant.planned import NAMES, SITE, planned

CITY = (NAMES.city,)
KEYS, CITIES = ("ORY", "LYS", "NCE"), ("Paris", "Lyon", None)
STREAMS = ("temporal", "transaction", "another pipeline's")


@pytest.fixture
def sites(tmp_path: Path) -> PlannedTable:
    return planned(tmp_path).tables[SITE.name]


def test_a_table_is_kept_once_by_its_columns_and_look_ups_and_no_longer_than_a_stream(
    sites: PlannedTable, tmp_path: Path
) -> None:
    shared = SharedVersions()
    first = shared.of(sites, {CITY})
    again = planned(tmp_path / "again").tables[SITE.name]
    assert shared.of(again, {CITY}) is first
    assert shared.of(sites, set()) is not first
    first.take(Version(("ORY",), 10, ("ORY", "Orly")))
    del first
    assert shared.of(sites, {CITY}).count == 0


def test_a_version_stays_until_no_stream_needs_it(sites: PlannedTable) -> None:
    shared = SharedVersions()
    kept = shared.of(sites, {CITY})
    kept.settle("temporal", 30)
    kept.settle("transaction", 10)
    for commit_lsn, city in ((5, "Orly"), (20, "Paris"), (30, "Lyon")):
        kept.take(Version(("ORY",), commit_lsn, ("ORY", city)))
    assert kept.count == 3, "the stream behind needs all"
    kept.settle("transaction", 20)
    kept.take(Version(("ORY",), 40, ("ORY", "Nice")))
    assert (kept.count, kept.keys_by(CITY, {("Orly",)})) == (3, set())
    shared.leave("transaction")
    kept.take(Version(("ORY",), 50, ("ORY", "Metz")))
    assert [one.commit_lsn for one in kept.versions([("ORY",)])] == [30, 40, 50]


def test_a_stream_that_starts_again_finds_what_the_others_have_forgotten(
    sites: PlannedTable,
) -> None:
    kept = SharedVersions().of(sites, {CITY})
    old, newer = Version(("ORY",), 5, ("ORY", "Orly")), Version(("ORY",), 30, ("ORY", "Lyon"))
    kept.settle("temporal", 30)
    for version in (old, newer):
        kept.take(version)
    assert kept.before(("ORY",), 20) is None
    kept.settle("transaction", 10)
    kept.take(old)
    assert kept.before(("ORY",), 20) == ("ORY", "Orly")
    assert kept.before(("ORY",), 40) == ("ORY", "Lyon")
    assert kept.keys_by(CITY, {("Orly",)}) == {("ORY",)}


class Follower:
    """A stream that takes a history in any steps; `alone` is what it keeps without the others."""

    def __init__(
        self, name: str, table: PlannedTable, shared: SharedVersions, history: Sequence[Version]
    ) -> None:
        self._name, self._table, self._shared, self._history = name, table, shared, history
        self._settled = self._taken = 0
        self.is_stopped = False
        self.start(0)

    def start(self, stored: int) -> None:
        """From its frontier on; the history in Delta has come to `stored`, less or more far."""
        self._alone = TableVersions(self._table, {CITY})
        self._kept = self._shared.of(self._table, {CITY})
        self._taken, self.is_stopped = self._settled, False
        for kept in (self._alone, self._kept):
            kept.settle(self._name, self._settled)
            for version in self._valid_later(max(stored, self._settled)):
                kept.take(version)

    def go_on(self, until: int) -> None:
        for version in self._history:
            if self._taken < version.commit_lsn <= until:
                self._alone.take(version)
                self._kept.take(version)
        self._taken = max(self._taken, until)

    def settle(self) -> None:
        self._settled = self._taken
        for kept in (self._alone, self._kept):
            kept.settle(self._name, self._settled)

    def stop(self) -> None:
        self._shared.leave(self._name)
        self.is_stopped = True

    def check(self) -> None:
        """What a fact at each commit that is taken and not written is joined with."""
        for commit_lsn in range(self._settled + 1, self._taken + 1):
            found, expected = (_joined(one, commit_lsn) for one in (self._kept, self._alone))
            assert found == expected, (self._name, commit_lsn)
            living = self._kept.living(commit_lsn)
            assert set(living) == set(self._alone.living(commit_lsn))

    def _valid_later(self, stored: int) -> list[Version]:
        """As the history gives them: all that is valid at the frontier or later."""
        known = [one for one in self._history if one.commit_lsn <= stored]
        ended = {
            (one.key, one.commit_lsn)
            for key in {one.key for one in known}
            for one, after in pairwise([one for one in known if one.key == key])
            if after.commit_lsn <= self._settled
        }
        return [one for one in known if (one.key, one.commit_lsn) not in ended]


def _joined(kept: TableVersions, commit_lsn: int) -> dict:
    """By city and by key: the rows valid at a commit."""
    found = {}
    for city in CITIES[:-1]:
        keys = kept.keys_by(CITY, {(city,)})
        rows = kept.relation(keys).to_pylist()
        found[city] = sorted(
            (row[NAMES.code], row[NAMES.city])
            for row in rows
            if row["valid_from"] <= commit_lsn < row["valid_to"] and row[NAMES.city] == city
        )
    return found | {key: kept.before((key,), commit_lsn + 1) for key in KEYS}


@pytest.mark.slow
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("_round", range(5))
def test_a_stream_finds_what_it_finds_alone_however_far_the_others_are(
    sites: PlannedTable, monkeypatch: pytest.MonkeyPatch, _round: int, small: bool
) -> None:
    if not small:
        monkeypatch.setattr("lockstep.streams.versions.SMALL_ROWS_MAX", 0)
    seed = random.randrange(2**31)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    history = [
        Version((key,), lsn, rng.choice([None, (key, rng.choice(CITIES))]))
        for lsn in range(1, 60)
        for key in rng.sample(KEYS, rng.randint(1, 2))
    ]
    shared = SharedVersions()
    streams = [Follower(name, sites, shared, history) for name in STREAMS]
    for _ in range(60):
        one = rng.choice(streams)
        if one.is_stopped:
            one.start(rng.randint(0, 60))
        match rng.randrange(4):
            case 0:
                one.settle()
            case 1:
                one.stop()
            case _:
                one.go_on(rng.randint(0, 60))
        one.check()
