"""How tables and columns come into a source's history that it did not keep before.

They are made from what is still there: the change topic, and of a late table its side snapshot.
All that the history has of such a table is replaced in one commit, up to the history's frontier.
Its writer does that as it starts, and goes on from there; readers of other tables see no
difference. Broken off, it is done again.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable

from lockstep.cdc.records import RecordDecoder
from lockstep.errors import StreamError
from lockstep.faults import Point, reach
from lockstep.host.files import make_private_folder
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.model.modes import HISTORY
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import PlannedTable
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.sources import change_topic
from lockstep.sources.capture import current_xid
from lockstep.sources.side_snapshots import SideSnapshots
from lockstep.streams.beginning import begin
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.kept_tables import (
    KEPT_TABLES,
    KeptTable,
    kept_of,
    kept_text,
    read_kept,
)
from lockstep.streams.source_history import SourceHistorySink, history_log

Tables = Mapping[TableName, PlannedTable]


@dataclass(frozen=True)
class HistoryTables:
    """What a history is to keep, and what it is made of.

    tables: with all columns that a pipeline reads. folder: for what is being made.
    """

    settings: Settings
    tables: Tables
    snapshots: SideSnapshots
    given_up: GivenUp
    decoder: RecordDecoder
    folder: Path
    progressed: Callable[[], None] = lambda: None

    def complete(self, log: AppendLog) -> None:
        """Make what the history lacks, and have it say so.

        The caller is the history's one writer, and does not write meanwhile. Raises StreamError
        when the topics do not have it, LakehouseError; then the history keeps what it kept.
        """
        wanted = kept_of(self.tables.values(), self.snapshots)
        kept = read_kept(log.properties, log.description)
        lacking = {
            name for name, one in wanted.items() if name not in kept or not kept[name].covers(one)
        }
        stays = {name: _of_both(one, kept.get(name)) for name, one in wanted.items()}
        stays = {name: one for name, one in stays.items() if one is not None}
        if kept_text(stays) != kept_text(kept):
            # What is not written any more is not kept any more.
            log.set_property(KEPT_TABLES, kept_text(stays))
        for since in sorted({wanted[name].since for name in lacking}):
            made = {name for name in lacking if wanted[name].since == since}
            self._make(log, {name: self.tables[name] for name in made}, since)
            stays |= {name: wanted[name] for name in made}
            log.set_property(KEPT_TABLES, kept_text(stays))

    def _make(self, log: AppendLog, tables: Tables, since: int) -> None:
        """All that the history is to have of tables of one snapshot, by now."""
        frontier = log.reached.frontier
        if frontier is None and since == SNAPSHOT_COMMIT_LSN:
            return  # its writer begins with the connector's own snapshot
        until = since if frontier is None else max(since, frontier)
        with _emptied(self.folder):
            made = history_log(str(self.folder / "table"), tables, 1, None)
            sink = SourceHistorySink(made, tables)
            came = self.snapshots.of_late(next(iter(tables)))
            if came is not None:
                side = self.decoder.of_topic(self.snapshots.topic(came))
                begin(self.settings, sink, came, side, self.progressed)
            self._follow(sink, until)
            reach(Point.BEFORE_HISTORY_TABLES, HISTORY)
            rows = DeltaTable(made.uri).to_pyarrow_dataset()
            log.replace(
                sorted(map(str, tables)),
                rows.scanner(filter=ds.field("commit_lsn") <= until).to_reader(),
            )
            reach(Point.AFTER_HISTORY_TABLES, HISTORY)

    def _follow(self, sink: SourceHistorySink, until: int) -> None:
        """Write what the change topic has of commits up to `until`, which the history has seen."""
        reached = sink.reached
        if reached.frontier is not None and reached.frontier >= until:
            return
        follower = Follower(
            self.settings,
            "history tables",
            sink,
            xid_near=current_xid(self.settings),
            given_up=self.given_up,
        )
        topic = self.given_up.topic
        end = change_topic.end_offset(self.settings, topic)
        for records in change_topic.read_again(self.settings, reached.resume_offset, end, topic):
            follower.follow(records)
            self.progressed()
            frontier = follower.tracker.frontier
            if frontier is not None and frontier >= until:
                return
        raise StreamError(
            f"{topic} ends before LSN {until}, which the source's history has reached already: it "
            "is another topic, or records were removed"
        )


def _of_both(wanted: KeptTable, kept: KeptTable | None) -> KeptTable | None:
    """What is kept already of what is wanted; None of a table of another snapshot."""
    if kept is None or kept.since != wanted.since:
        return None
    return KeptTable(tuple(name for name in wanted.columns if name in kept.columns), kept.since)


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """The folder, empty, for the block; removed after it."""
    shutil.rmtree(folder, ignore_errors=True)
    make_private_folder(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
