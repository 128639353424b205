"""`lockstep bench flink`: the sides take turns, and a side that lost a row ends the run."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from lockstep.settings import Settings
from lockstep_tools.bench.paced_orders import Placed
from lockstep_tools.bench.peer import compare
from lockstep_tools.bench.peer.compare import Load, measure
from lockstep_tools.bench.peer.install import Flink
from lockstep_tools.bench.peer.job import Sink
from lockstep_tools.bench.peer.rows import Rows
from lockstep_tools.bench.peer.sides import OURS, Run
from lockstep_tools.errors import MeasurementError

BACKLOG = 3
PACED_SECONDS = 1.6
"""Long enough for two samples of the processes."""
FLINK = Flink(Path("python"), [])
PEER = "Flink to Paimon"


class Shop:
    """Holds when each order was committed, in microseconds."""

    def __init__(self) -> None:
        self.committed_us: list[int] = []

    def place(self, count: int) -> None:
        self.committed_us += [time.time_ns() // 1000] * count


class FakeSide:
    """Makes every order readable 50 ms after its commit, but for the first `lost`."""

    def __init__(self, name: str, shop: Shop, lost: int = 0) -> None:
        self.name, self._shop, self._lost = name, shop, lost

    @contextmanager
    def running(self) -> Iterator[Run]:
        yield Run(os.getpid(), 2.0, time.time_ns(), lambda _rows, _seconds: None, self._rows)

    def _rows(self) -> Rows:
        committed = np.array(self._shop.committed_us[self._lost :], np.int64)
        return Rows(np.arange(len(committed)), committed, committed * 1000 + 50_000_000)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop()

    def paced(_settings: Settings, _rate: float, _seconds: float) -> Placed:
        time.sleep(PACED_SECONDS)
        shop.place(1)
        return Placed(late_seconds_max=0.01)

    monkeypatch.setattr(compare, "_load_backlog", lambda _settings, orders: shop.place(orders))
    monkeypatch.setattr(compare, "_rows_of_outbox", lambda _settings: len(shop.committed_us))
    monkeypatch.setattr(compare, "place_paced", paced)
    return shop


def sides(monkeypatch: pytest.MonkeyPatch, shop: Shop, lost: int = 0) -> None:
    monkeypatch.setattr(compare, "Lockstep", lambda _settings: FakeSide(OURS, shop))
    monkeypatch.setattr(compare, "FlinkTo", lambda *_: FakeSide(PEER, shop, lost))


def test_the_sides_take_turns_and_only_rows_after_the_warm_up_count(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides(monkeypatch, shop)
    said: list[str] = []
    load = Load(rate=1, warm_up_seconds=0.2, seconds=1, orders=BACKLOG, rounds=2)
    measured = measure(Settings(), FLINK, [Sink.PAIMON], load, said.append)
    turns = [text.rpartition(": ")[2] for text in said if "round" in text]
    assert turns == [OURS, PEER] * 4
    assert [one.rows for one in measured.drains[PEER]] == [BACKLOG] * 2
    assert {one.start_seconds for one in measured.drains[OURS]} == {2.0}
    for rounds in measured.latencies.values():
        assert [one.rows for one in rounds] == [1, 1]
        assert [one.seconds.p50 for one in rounds] == pytest.approx([0.05, 0.05])
        assert all(one.peak_mib > 10 for one in rounds)


def test_without_a_backlog_nothing_is_drained(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sides(monkeypatch, shop)
    load = Load(rate=1, warm_up_seconds=0, seconds=1, orders=0, rounds=1)
    measured = measure(Settings(), FLINK, [Sink.PAIMON], load, lambda _: None)
    assert measured.drains == {}
    assert list(measured.latencies) == [OURS, PEER]


def test_a_side_that_lost_a_row_ends_the_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sides(monkeypatch, shop, lost=1)
    load = Load(rate=1, warm_up_seconds=0, seconds=1, orders=BACKLOG, rounds=1)
    with pytest.raises(MeasurementError, match="Flink to Paimon wrote 2 rows of 2 orders"):
        measure(Settings(), FLINK, [Sink.PAIMON], load, lambda _: None)


def test_a_run_without_a_row_after_the_warm_up_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides(monkeypatch, shop)
    shop.place(BACKLOG)

    def nothing(*_: object) -> Placed:
        time.sleep(PACED_SECONDS)
        return Placed()

    monkeypatch.setattr(compare, "place_paced", nothing)
    load = Load(rate=1, warm_up_seconds=0, seconds=1, orders=0, rounds=1)
    with pytest.raises(MeasurementError, match="wrote no row of an order placed after"):
        measure(Settings(), FLINK, [], load, lambda _: None)
