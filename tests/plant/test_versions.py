"""Which versions of a row stay in memory, and what a stream that starts takes from the topic."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from lockstep.cdc.records import Change, End, Record, RecordDecoder
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams.as_of_commit import catch_up
from lockstep.streams.given_up import GivenUp
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import TableRow, rows_decoder, text_of
from lockstep.streams.versions import TableVersions, Version

from tests.plant.planned import SITE, planned

KEY = ("ORY",)
TABLE = text_of(SITE.name)


def named(version: Version) -> tuple[int, str]:
    return version.commit_lsn, version.values[1]


def test_the_version_that_is_valid_at_the_frontier_is_kept(tmp_path: Path) -> None:
    """The next fact is joined with it, however old it is; those before it are not needed."""
    kept = TableVersions(planned(tmp_path).tables[SITE.name], [])
    kept.settle("a stream", 30)
    for commit_lsn, city in ((10, "Orly"), (20, "Paris"), (40, "Lyon")):
        kept.take(Version(KEY, commit_lsn, (*KEY, city)))
    assert list(map(named, kept.versions([KEY]))) == [(20, "Paris"), (40, "Lyon")]
    assert kept.count == 2
    assert kept.before(KEY, 40) == (*KEY, "Paris")


class Stream(NamedTuple):
    """The versions of a stream that starts, and what it catches up with."""

    needed: NeededVersions
    settings: Settings
    given_up: GivenUp

    def catch_up(self) -> None:
        catch_up(self.settings, self.needed, frozenset({TABLE}), self.given_up)

    def cities(self) -> list[tuple[int, str]]:
        return list(map(named, self.needed._kept[TABLE].versions([KEY])))


def change(lsn: int, city: str) -> Change:
    texts = tuple(f'"{text}"'.encode() for text in (*KEY, city))
    return Change(lsn, lsn, 1, TABLE, "u", TableRow(KEY, (*KEY, city), texts), lsn, lsn)


def stream(folder: Path, frontier: int) -> Stream:
    """One that has come so far; the history has transaction 10 only."""
    plan = planned(folder)
    settings = Settings(home=folder / "home", lakehouse=str(folder / "lakehouse"))
    uri = settings.table_uri(plan.history)
    history = SourceHistorySink(history_log(uri, plan.tables, 1, 7), plan.tables)
    first = Transaction(10, 10, 10, [change(10, "Orly")], OffsetRange(10, 11), 1)
    history.write([first], 10, 12, 0)
    needed = NeededVersions(plan, StoredHistory(uri), frontier)
    return Stream(needed, settings, GivenUp(tuple, rows_decoder(plan.change_topic, plan.tables)))


@pytest.fixture
def _topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four transactions, decoded already."""
    records: list[Record] = []
    for lsn, city in ((20, "Paris"), (30, "Lyon"), (40, "Nice"), (50, "Metz")):
        records += [change(lsn, city), End(lsn + 1, lsn, lsn, {TABLE: 1}, lsn)]

    def read_again(_: Settings, first: int, end: int, _topic: str = "") -> Iterator[list]:
        yield [(one.offset, one) for one in records if first <= one.offset < end]

    monkeypatch.setattr(change_topic, "end_offset", lambda *_: records[-1].offset + 1)
    monkeypatch.setattr(change_topic, "read_again", read_again)
    monkeypatch.setattr(RecordDecoder, "decode", lambda _self, value, *_: value)


@pytest.mark.usefixtures("_topic")
def test_a_stream_catches_up_to_its_own_frontier_and_no_further(tmp_path: Path) -> None:
    """Its next facts need the versions of then, although newer ones are in the topic."""
    starting = stream(tmp_path, frontier=30)
    starting.catch_up()
    assert starting.cities()[-1] == (30, "Lyon")
