"""What the benchmarks make of their figures: medians, ratios to the peer, peaks, and tables."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from lockstep.errors import ServiceError
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep_tools.bench import batch, cold_start, large, parity, throughput
from lockstep_tools.bench.memory import MIB, PeakMemory
from lockstep_tools.commands import bench as command
from rich.console import Console

TERMINAL_COLUMNS = 100


def lines_of(table: object) -> list[str]:
    """As a terminal of 100 columns shows it, a row's cells by single spaces."""
    console = Console(width=TERMINAL_COLUMNS, highlight=False)
    with console.capture() as captured:
        console.print(table)
    shown = captured.get().splitlines()
    assert max(map(len, shown)) <= TERMINAL_COLUMNS
    return [" ".join(line.replace("│", " ").split()) for line in shown]


def test_an_hour_is_a_share_of_the_day_and_is_measured_by_its_median() -> None:
    measured = batch.Measured(orders=2400, hour_orders=100)
    measured.seconds = {
        (batch.ALL, batch.COPY): [2.0, 4.0, 30.0],
        (batch.ALL, "view"): [8.0, 6.0, 1.0],
        (batch.NEW_HOUR, batch.COPY): [0.5],
        (batch.SAME_HOUR, "view"): [1.0],
    }
    assert measured.rows(batch.ALL) == 2400
    assert measured.rows(batch.NEW_HOUR) == 100
    shown = lines_of(command._table(measured, rounds=3))
    assert "all orders 2,400 view 6.00 1.00 to 8.00 400 1.50" in shown
    assert "the hour again 100 view 1.00 1.00 to 1.00 100 2.00" in shown


def test_a_cold_start_is_the_medians_of_session_and_first_table() -> None:
    seconds = {("streams", True): [(5.0, 1.0), (7.0, 3.0), (6.0, 50.0)]}
    assert cold_start.Measured(seconds).medians("streams", True) == (6.0, 3.0)


def test_without_an_archive_there_is_no_cold_start_to_measure(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="is not there"):
        cold_start.measure(Settings(jars_dir=tmp_path), 1, print)


def test_a_side_of_the_comparison_is_shown_with_its_cold_round() -> None:
    ours = parity.Side([30.0, 10.0, 20.0], 1500.0, "all of them")
    measured = parity.Measured(1000, 8.5, {parity.OURS: ours})
    shown = lines_of(command._parity_table(measured))
    assert "lockstep 30.0 20.0 10.0 to 30.0 1,500" in shown


def test_a_drain_is_shown_by_orders_and_by_records() -> None:
    drained = throughput.Drained(StreamMode.OUTBOX, 1000, 2.0, None, 7.0)
    measured = throughput.Measured(1000, 3.0, throughput.Written(5000, 4.0), [drained])
    shown = lines_of(command._throughput_table(measured))
    assert "Debezium 4.0 250 1,250" in shown
    assert "outbox 7.0 2.0 500 2,500" in shown


@pytest.mark.parametrize(("differs", "said"), [("", "as in the database"), ("2 lost", "2 lost")])
def test_a_large_load_says_whether_its_totals_are_the_database_s(differs: str, said: str) -> None:
    drained = large.Drained(StreamMode.TEMPORAL, 100.0, 2000.0, differs)
    shown = lines_of(command._large_table([large.Measured("a load", "totals", [drained])]))
    assert f"a load temporal {said} 100 2,000" in shown


@pytest.fixture
def asked() -> threading.Event:
    return threading.Event()


def held(asked: threading.Event, *mib: int) -> Callable[[], int]:
    """Gives these one after the other, then the last; `asked` is set from then on."""
    values = list(mib)

    def next_value() -> int:
        if len(values) > 1:
            return values.pop(0) * MIB
        asked.set()
        return values[0] * MIB

    return next_value


def test_the_peak_is_the_greatest_since_the_last_reset(asked: threading.Event) -> None:
    with PeakMemory(held(asked, 10, 70, 30)) as peak:
        assert asked.wait(10)
        assert peak.mib == 70
        peak.reset()
        asked.clear()
        assert asked.wait(10)
    assert peak.mib == 30
