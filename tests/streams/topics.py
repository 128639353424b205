"""A change topic whose records are decoded already, and streams that follow it without Spark."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import (
    Change,
    End,
    EnvelopeDecoder,
    Record,
    RecordDecoder,
    SnapshotNotice,
)
from lockstep.cdc.transactions import OffsetRange
from lockstep.faults import in_mode
from lockstep.model.modes import StreamMode
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.sources.delta import open_table
from lockstep.streams import large
from lockstep.streams.fact_records import facts_decoder
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.micro_batches import MicroBatches, Stage
from lockstep.streams.modes import Modes
from lockstep.streams.reader_runner import ReaderRunner
from lockstep.streams.runner import Position, Runner
from lockstep.streams.sink import Sink, open_change_log
from lockstep.streams.source_reader import SourceReader, SourceReaders
from lockstep.streams.subscription import Subscription
from lockstep.streams.table_rows import TableRow
from pizzeria.names import MANIFEST, change_log_table

from tests.project import PROJECT_DIR

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLICE = 25
PLAN = plan_named(PROJECT_DIR, MANIFEST)
EMPTY_SNAPSHOT = (SnapshotNotice(0, "STARTED"), SnapshotNotice(1, "COMPLETED"))

DECODER = facts_decoder(PLAN, PLAN.tables)
"""Of the modes that join nothing."""
RowChange = tuple[str, str, TableRow | None]
"""Its table, its operation, and the row."""


def published(
    order_id: int, op: str, client: str | None, table: str | None, pizzas: Sequence[tuple]
) -> TableRow:
    """What is published of an order; pizzas: name and price of each. A delete has the id alone."""
    values = None if op == "d" else (NOON, client, table, list(pizzas))
    return TableRow((order_id,), values, op=op)


def transaction(tx: int, rows: Sequence[RowChange], start: int) -> list[Record]:
    """Its changes at consecutive offsets, and its END."""
    changes = [
        Change(start + i, tx, i + 1, table, op, row, tx * 1000, tx * 1000)
        for i, (table, op, row) in enumerate(rows)
    ]
    counts: dict[str, int] = {}
    for table, _, _ in rows:
        counts[table] = counts.get(table, 0) + 1
    return [*changes, End(start + len(rows), tx, tx * 10, counts, tx * 1000)]


def topic_of(*transactions: Sequence[RowChange]) -> list[Record]:
    """An empty snapshot and these transactions behind it; the first is 1, at LSN 10."""
    records = list(EMPTY_SNAPSHOT)
    for tx, rows in enumerate(transactions, start=1):
        records += transaction(tx, rows, start=len(records))
    return records


def serve(monkeypatch: pytest.MonkeyPatch, records: Sequence[Record]) -> None:
    """Make these the change topic's records, decoded already; read again they come in slices."""

    def read_again(_settings: Settings, first: int, end: int, _topic: str = "") -> Iterator[list]:
        found = [(record.offset, record) for record in records[first:end]]
        yield from (found[at : at + SLICE] for at in range(0, len(found), SLICE))

    monkeypatch.setattr(RecordDecoder, "decode", lambda _self, value, *_: value)
    monkeypatch.setattr(large, "read_again", read_again)


def follower_of(
    spark: object, settings: Settings, mode: str, given_up: GivenUp | None = None
) -> Follower:
    """given_up: None when nothing is."""
    sink, given_up = _parts(spark, settings, mode, given_up)
    return Follower(settings, mode, sink, xid_near=100, given_up=given_up)


def micro_batches_of(
    spark: object, settings: Settings, mode: str, stage: Stage | None = None
) -> MicroBatches:
    """A query that is not started: a test hands micro-batches over."""
    sink, given_up = _parts(spark, settings, mode, None)
    follower = Follower(
        settings, mode, sink, xid_near=100, given_up=given_up, held_back=stage is not None
    )
    return MicroBatches(settings, follower, spark, settings.home, stage)


class ReadHere:
    """A stream and its reader without their threads: what a test hands over is read and written."""

    def __init__(
        self,
        spark: object,
        settings: Settings,
        mode: str,
        look: Callable[[], Sequence[OffsetRange]] = tuple,
    ) -> None:
        """look: the stretches that are given up."""
        decoder = Modes.of(settings).decoder_of(mode)
        sink, given_up = _parts(spark, settings, mode, GivenUp(look, decoder))
        reached, envelopes = sink.reached, EnvelopeDecoder(given_up.topic)
        readers = SourceReaders(settings, GivenUp(look, envelopes), xid_near=100)
        self.next_offset = reached.resume_offset
        self._stream = Subscription(Position(reached.resume_offset, reached.frontier, None))
        self.readers, self.reader = readers, SourceReader(readers, self._stream, reached)
        self.runner = ReaderRunner(settings, mode, sink, readers=readers, given_up=given_up)
        self.runner._stream = self._stream
        in_mode(mode)

    def take(self, values: Sequence[bytes | None]) -> None:
        """The next records of the topic. Raises what ends the stream."""
        try:
            self.reader._take(list(enumerate(values, start=self.next_offset)))
        except PoisonedRecordError as error:
            self.reader._end(error)
        self.next_offset += len(values)
        self._work()
        if self._stream.is_over:
            self._work()

    def _work(self) -> None:
        with upkeep_at_once(self.runner):
            self.runner._work()


@contextmanager
def upkeep_at_once(runner: Runner) -> Iterator[None]:
    """What is due next to the block is done when it ends: a crash there comes where it belongs, and
    one of the stream leaves no thread behind, as a process that dies leaves none."""
    try:
        yield
    except BaseException:
        if (look := runner._upkeep._look) is not None:
            look.exception()  # waits for its end
        raise
    if (look := runner._upkeep._look) is not None:
        look.result()


def _parts(
    spark: object, settings: Settings, mode: str, given_up: GivenUp | None
) -> tuple[Sink, GivenUp]:
    modes = Modes.of(settings)
    modes.make_table(mode)
    sink = modes.sink_of(spark, mode, capture_id=1)
    return sink, given_up or GivenUp(list, modes.decoder_of(mode))


def passing(*offsets: int) -> GivenUp:
    """These offsets, and no others, are given up."""
    ranges = [OffsetRange(offset, offset) for offset in sorted(offsets)]
    return GivenUp(lambda: ranges, DECODER)


def follow(one: Follower, records: Sequence[Record]) -> None:
    one.follow([(record.offset, record) for record in records])


def settings_of(folder: Path) -> Settings:
    return Settings(home=folder / "home", lakehouse=str(folder / "lakehouse"))


def open_log(settings: Settings, mode: str, capture_id: int | None = None) -> AppendLog:
    """The mode's change log, for its one writer."""
    return open_change_log(settings, PLAN, Mode(mode), capture_id)


def change_log(settings: Settings, mode: StreamMode) -> list[int]:
    """Of each row of the mode's change log the order."""
    log = open_table(settings.table_uri(change_log_table(mode)))
    return sorted(log.to_pyarrow_table()["order_id"].to_pylist())
