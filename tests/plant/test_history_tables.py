"""Tables come into a history that did not keep them: it is then as if it had from the beginning.

The topics hold random transactions; the history's writer is anywhere in them, and may be killed.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from lockstep.cdc import transactions
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import PlannedTable
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.sources import change_topic
from lockstep.sources.side_snapshots import SideSnapshot, SideSnapshots
from lockstep.streams import history_tables, large
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.history_tables import HistoryTables
from lockstep.streams.kept_tables import (
    KEPT_TABLES,
    KeptTable,
    kept_of,
    kept_text,
    read_kept,
)
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import rows_decoder

from tests.plant.planned import FACT, NAMES, SENSOR, SITE, planned
from tests.plant.random_changes import SNAPSHOT, RandomChanges
from tests.plant.test_source_history import KilledError
from tests.plant.test_temporal import FACT_WITH_NOTE, QUERY, history_rows, read_columns

pytestmark = pytest.mark.slow

SEEDS = range(6)
Versions = dict[tuple[str, str, int], tuple[str, dict | None]]
Tables = dict[TableName, PlannedTable]


class Source:
    """Its topics, and a history of some of its tables. late: those of a side snapshot."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rng = Random(seed)
        self.changes = RandomChanges(NAMES, self.rng)
        self.changes.add(30)
        self.tables: Tables = dict(
            planned(folder, FACT_WITH_NOTE, SENSOR, SITE, query=QUERY).tables
        )
        self.uri, self._folder = str(folder / "history"), folder
        self._settings = Settings(home=folder / "home")
        self._side: list[bytes] = []
        self.snapshots = SideSnapshots("plant")
        monkeypatch.setattr("lockstep.streams.writer.QUIET_COMMIT_SECONDS", 0)
        monkeypatch.setattr(history_tables, "current_xid", lambda _: 1000)
        for module in (change_topic, large):
            monkeypatch.setattr(module, "read_again", self._read_again)
        monkeypatch.setattr(change_topic, "end_offset", lambda _, topic: len(self._of(topic)))

    def take_side_snapshot(self, late: list[TableName]) -> int:
        """At a commit of the changes; returns its LSN."""
        number = self.rng.randrange(1, len(self.changes.commits))
        commit, records = self.changes.commits[number], self.changes.records
        rows = RandomChanges(NAMES, self.rng)
        rows._write(SNAPSHOT[0])
        for table, of_table in commit.state.items():
            for row in of_table.values():
                rows._change(None, 0, "r", table, None, row)
        rows._write(SNAPSHOT[1])
        self._side = rows.records
        names = tuple(map(str, self.tables))
        ends = [at for at, record in enumerate(records) if b'"status": "END"' in record]
        begins = next(at for at, record in enumerate(records) if b'"BEGIN"' in record)
        first_offset = self.rng.randint(begins, ends[number - 1] + 1)
        taken = SideSnapshot(1, tuple(map(str, late)), names, commit.lsn, first_offset)
        first = tuple(name for name in names if name not in taken.late)
        self.snapshots = SideSnapshots("plant", [taken], first)
        return commit.lsn

    def writer(self, tables: Tables) -> Follower:
        """Of the history over these tables, which has all that it is to have of them."""
        decoder = rows_decoder("topic", tables, keeps_texts=True)
        given_up = GivenUp(tuple, decoder)
        of_first = {
            name: one for name, one in tables.items() if self.snapshots.of_late(name) is None
        }
        log = history_log(self.uri, of_first, 1, 7)
        HistoryTables(
            self._settings, tables, self.snapshots, given_up, decoder, self._folder / "made"
        ).complete(log)
        since = {name: one.since for name, one in kept_of(tables.values(), self.snapshots).items()}
        sink = SourceHistorySink(log, tables, since)
        return Follower(self._settings, "h", sink, xid_near=1000, given_up=given_up)

    def write(self, tables: Tables, end: int) -> None:
        """All up to an offset."""
        runner = self.writer(tables)
        while (first := runner.tracker.next_offset) < end:
            last = min(end, first + self.rng.randint(1, 40))
            runner.follow(list(enumerate(self.changes.records))[first:last])

    def expected(self, since: int, late: list[TableName]) -> Versions:
        """Every version; of late tables the rows of their snapshot, and what came after it."""
        of_late, found = set(map(str, late)), {}
        for place, version in read_columns(self.changes.history()).items():
            if place[0] not in of_late or place[-1] > since:
                found[place] = version
            elif version[0] != "d":
                found[*place[:2], since] = ("c", version[1])
            else:
                found.pop((*place[:2], since), None)
        return found

    def _of(self, topic: str) -> list[bytes]:
        return self._side if "side" in topic else self.changes.records

    def _read_again(self, _: Settings, first: int, end: int, topic: str = "") -> Iterator[list]:
        found = list(enumerate(self._of(topic)))[first:end]
        yield from (found[at : at + 7] for at in range(0, len(found), 7))


@pytest.fixture(params=SEEDS)
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Source:
    print(f"seed {request.param}")  # noqa: T201 - shown when a test fails
    return Source(tmp_path, request.param, monkeypatch)


@pytest.mark.parametrize("held", [50_000, 3], ids=["in memory", "large"])
def test_late_tables_have_the_rows_of_their_snapshot_and_what_came_after_it(
    source: Source, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """The history may be behind the snapshot, or past it, or begin with it."""
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held)
    late = [SENSOR.name, SITE.name]
    fact = {name: one for name, one in source.tables.items() if name not in late}
    end = len(source.changes.records)
    source.write(fact, source.rng.choice([0, end, source.rng.randrange(end)]))
    since = source.take_side_snapshot(late)
    source.write(source.tables, end)
    assert history_rows(source.uri) == source.expected(since, late)
    StoredHistory(source.uri).require(kept_of(source.tables.values(), source.snapshots))


def test_a_truncate_right_after_the_snapshot_deletes_the_rows_of_the_snapshot(
    source: Source,
) -> None:
    """They are ahead of the frontier of a history that begins after the snapshot was taken."""
    late = [SENSOR.name, SITE.name]
    since = source.take_side_snapshot(late)
    runner = source.writer(source.tables)
    runner.follow(list(enumerate(source.changes.records)))  # all in one commit
    assert history_rows(source.uri) == source.expected(since, late)


def test_a_table_and_a_column_that_nothing_read_before_come_from_the_change_topic(
    source: Source, tmp_path: Path
) -> None:
    before = planned(tmp_path / "before", FACT, SENSOR, SITE).tables
    few = {FACT.name: before[FACT.name], SENSOR.name: before[SENSOR.name]}
    assert set(few[FACT.name].columns) < set(source.tables[FACT.name].columns)
    end = len(source.changes.records)
    source.write(few, source.rng.randrange(end // 2, end))
    source.write(source.tables, end)
    assert history_rows(source.uri) == source.expected(0, [])


def test_what_was_not_written_for_a_while_is_made_again(source: Source) -> None:
    """A pipeline that goes takes its tables along; when it comes back they have no gap."""
    fact = {FACT.name: source.tables[FACT.name]}
    end = len(source.changes.records)
    source.write(source.tables, end // 3)
    source.write(fact, 2 * end // 3)
    source.write(source.tables, end)
    assert history_rows(source.uri) == source.expected(0, [])


def test_what_a_history_of_hundreds_of_tables_keeps_has_room(tmp_path: Path) -> None:
    """A table's description, where it was before, has 4,000 characters at the most."""
    kept = {
        TableName("public", f"table_{number}"): KeptTable(("id", "a_long_name_of_a_column"), number)
        for number in range(300)
    }
    log = history_log(str(tmp_path / "history"), {}, 1, 7)
    log.set_property(KEPT_TABLES, kept_text(kept))
    again = history_log(log.uri, {}, 1, 7)
    assert read_kept(again.properties, again.description) == kept


def test_what_an_earlier_version_described_is_read() -> None:
    text = '{"public.orders": ["id", "name"]}'
    expected = {TableName("public", "orders"): KeptTable(("id", "name"), 0)}
    assert read_kept({}, text) == expected


def test_a_writer_that_is_killed_while_tables_come_does_it_again(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [SENSOR.name, SITE.name]
    fact = {FACT.name: source.tables[FACT.name]}
    end = len(source.changes.records)
    source.write(fact, end // 2)
    since = source.take_side_snapshot(late)
    for method in ("replace", "set_property"):
        whole = getattr(AppendLog, method)

        def then_die(*given: object, whole: object = whole) -> None:
            whole(*given)
            raise KilledError

        with monkeypatch.context() as killed:
            killed.setattr(AppendLog, method, then_die)
            with pytest.raises(KilledError):
                source.writer(source.tables)
    source.write(source.tables, end)
    assert history_rows(source.uri) == source.expected(since, late)
