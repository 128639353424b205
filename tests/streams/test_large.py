"""Transactions and snapshots too large for memory give the rows that smaller ones do."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.records import Change, Record, SnapshotNotice
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams.table_rows import TableRow
from pizzeria.names import OUTBOX, change_log_table

from tests.cdc.histories import placed
from tests.streams.topics import (
    EMPTY_SNAPSHOT,
    follow,
    follower_of,
    published,
    serve,
    settings_of,
    topic_of,
)

WRITTEN_WHEN = ["seen_at", "written_at"]
DEADLINE_SECONDS = 30


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The change topic, whose records are decoded already, in slices."""
    records: list[Record] = []
    serve(monkeypatch, records)
    return records


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def have() -> None:
        monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 40)

    return have


def content(settings: Settings, mode: str) -> list[str]:
    rows = open_table(settings.table_uri(change_log_table(StreamMode(mode)))).to_pyarrow_table()
    kept = [name for name in rows.column_names if name not in WRITTEN_WHEN]
    return sorted(map(repr, rows.select(kept).to_pylist()))


def shown(number: int, name: str, op: str = "c") -> TableRow:
    pizzas = [(f"Pizza {number % 5}", Decimal(number) / 4), (None, None)]
    return published(number, op, name, f"Table {number % 6}", pizzas)


def snapshot() -> list[Record]:
    """An outbox of before the capture: 80 orders, of which 70 to 79 changed."""
    rows = [
        *((OUTBOX, shown(i, f"Client {i}")) for i in range(80)),
        *((OUTBOX, shown(i, f"Client {i}, married", "u")) for i in range(70, 80)),
    ]
    read = [
        Change(offset, None, offset, table, "r", row, offset * 1000, offset * 1000)
        for offset, (table, row) in enumerate(rows, start=1)
    ]
    return [SnapshotNotice(0, "STARTED"), *read, SnapshotNotice(len(rows) + 1, "COMPLETED")]


def test_a_snapshot_too_large_for_memory_gives_the_same_rows(
    tmp_path: Path, topic: list[Record], little_memory: Callable[[], None]
) -> None:
    topic[:] = snapshot()
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        one = follower_of(None, settings, StreamMode.OUTBOX)
        follow(one, topic)
        written[memory] = content(settings, StreamMode.OUTBOX)
        assert (one.writer.progress.last_progress_at is not None) is (memory == "little")
        assert one.writer.sink.reached.frontier == 0
    assert len(written["enough"]) == 80
    said = ["Client 0'", "Client 79, married", "Decimal('19.75')"]
    assert all(any(text in row for row in written["enough"]) for text in said)
    assert written["little"] == written["enough"]


def test_a_change_that_comes_again_within_a_large_transaction_is_not_its_last(
    tmp_path: Path, topic: list[Record], little_memory: Callable[[], None]
) -> None:
    """A connector that was killed sends the transaction's first changes again."""
    inserted = [(OUTBOX, "c", shown(number, "Client")) for number in range(30)]
    changed = [(OUTBOX, "c", shown(number, "Client, married", "u")) for number in range(30)]
    *records, end = topic_of([*inserted, *changed])
    again = records[len(EMPTY_SNAPSHOT) :][: len(inserted)]
    topic[:] = placed([*records, *again, end])
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        follow(follower_of(None, settings, StreamMode.OUTBOX), topic)
        written[memory] = content(settings, StreamMode.OUTBOX)
    assert len(written["enough"]) == 30
    assert all("Client, married" in row for row in written["enough"])
    assert written["little"] == written["enough"]
