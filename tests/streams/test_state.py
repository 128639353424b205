"""What a stream says that it holds: it grows and shrinks with what is held."""

import random
from pathlib import Path

import pytest
from lockstep.cdc.order_records import NameRow
from lockstep.cdc.records import Change
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.model.modes import HISTORY
from lockstep.pizzeria import CLIENTS, TABLES
from lockstep.settings import Settings
from lockstep.streams import dimensions
from lockstep.streams.dimensions import DimensionCache, Version
from lockstep.streams.runner import Runner
from lockstep.streams.temporal import HistorySink

from tests.cdc.histories import change, placed
from tests.streams.topics import passing


def transaction(lsn: int, *clients: int) -> Transaction:
    changes = [
        Change(lsn, lsn, place, CLIENTS, "c", NameRow(client, "Ada"), lsn, lsn)
        for place, client in enumerate(clients, start=1)
    ]
    return Transaction(lsn, lsn, lsn, changes, OffsetRange(lsn, lsn), len(clients))


def test_the_state_of_a_stream_is_what_it_caches_and_what_it_waits_with(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    sink = HistorySink(settings)
    runner = Runner(settings, HISTORY, sink, xid_near=1000, given_up=passing())
    assert runner.state_rows == 0
    sink.write([transaction(10, 1, 2, 3)], 10, 11, 0)
    assert runner.state_rows == 3
    runner.tracker.feed(placed([change(7, 1, CLIENTS), change(7, 2, CLIENTS)]))
    assert runner.state_rows == 5
    again = Runner(settings, HISTORY, HistorySink(settings), xid_near=1000, given_up=passing())
    assert again.state_rows == 3


@pytest.mark.parametrize("seed", range(5))
def test_the_count_of_versions_is_that_of_the_versions_kept(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensions, "CACHED_ROWS_MAX", 12)
    chance, cached = random.Random(seed), DimensionCache()
    counts = set()
    for lsn in range(1, 200):
        table = CLIENTS if chance.random() < lsn / 400 else TABLES
        row = chance.randrange(40 if table == CLIENTS else 10)
        version = Version(table, row, "u", (f"{lsn}",), lsn, chance.randrange(1, lsn + 1), 0)
        cached.take(version, settled_lsn=lsn - 30)
        kept = [versions for rows in cached._versions.values() for versions in rows.values()]
        assert cached.version_count == sum(map(len, kept))
        counts.add(cached.version_count)
    assert not cached.holds(CLIENTS)
    assert cached.holds(TABLES)
    assert len(counts) > 10
