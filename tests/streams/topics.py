"""A change topic whose records are decoded already, and streams that follow it without Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from lockstep.cdc.order_records import Row
from lockstep.cdc.records import Change, End, Record, RecordDecoder, SnapshotNotice
from lockstep.cdc.transactions import OffsetRange
from lockstep.model.modes import StreamMode
from lockstep.pizzeria import change_log_table
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import large
from lockstep.streams.given_up import GivenUp
from lockstep.streams.modes import Modes
from lockstep.streams.runner import Runner, Stage

SLICE = 25
EMPTY_SNAPSHOT = (SnapshotNotice(0, "STARTED"), SnapshotNotice(1, "COMPLETED"))

RowChange = tuple[str, str, Row | None]
"""Its table, its operation, and the row."""


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


def runner_of(
    spark: object,
    settings: Settings,
    mode: str,
    given_up: GivenUp | None = None,
    stage: Stage | None = None,
) -> Runner:
    """given_up: None when nothing is."""
    modes = Modes.of(settings)
    modes.make_table(mode)
    sink = modes.sink_of(spark, mode, capture_id=1)
    given_up = given_up or GivenUp(list, modes.decoder_of(mode))
    return Runner(settings, mode, sink, xid_near=100, given_up=given_up, stage=stage)


def passing(*offsets: int) -> GivenUp:
    """These offsets, and no others, are given up."""
    return GivenUp(lambda: [OffsetRange(offset, offset) for offset in sorted(offsets)])


def follow(one: Runner, records: Sequence[Record]) -> None:
    one._advance([(record.offset, record) for record in records])


def settings_of(folder: Path) -> Settings:
    return Settings(home=folder / "home", lakehouse=str(folder / "lakehouse"))


def change_log(settings: Settings, mode: StreamMode) -> list[int]:
    """Of each row of the mode's change log the order."""
    log = open_table(settings.table_uri(change_log_table(mode)))
    return sorted(log.to_pyarrow_table()["order_id"].to_pylist())
