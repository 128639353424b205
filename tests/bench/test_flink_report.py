"""`lockstep bench flink`: medians, ratios, the tables, and what processes took in the window."""

import math
from pathlib import Path

import pytest
from lockstep_tools.bench.latency import Distribution
from lockstep_tools.bench.memory import MIB
from lockstep_tools.bench.peer import report
from lockstep_tools.bench.peer.chart import points, save_chart
from lockstep_tools.bench.peer.compare import Drain, Latency, Load, Measured
from lockstep_tools.bench.peer.sides import OURS
from lockstep_tools.bench.peer.usage import Sample, Usage, usage_between
from lockstep_tools.commands import bench_flink as command
from lockstep_tools.errors import MeasurementError
from rich.table import Table

from tests.bench.test_figures import lines_of

LOAD = Load(rate=50, warm_up_seconds=45, seconds=60, orders=30_000, rounds=3)
PEER = "Flink to Paimon"


def latency(p50: float, cores: float = 0.5, mib: float = 1000.0) -> Latency:
    return Latency(3000, Distribution(p50, 2 * p50, 3 * p50, p50), cores, 0.25, mib, 0.002)


LATENCIES = {
    OURS: [latency(0.09), latency(0.05, cores=0.6), latency(0.08, mib=3000)],
    PEER: [latency(0.16), latency(0.2), latency(0.1)],
}


def test_a_side_is_its_medians_and_a_ratio_is_lockstep_s_over_the_other_s() -> None:
    figures = {side: report.latency_figures(rounds) for side, rounds in LATENCIES.items()}
    assert figures[OURS]["p50"] == pytest.approx(80)
    assert figures[OURS]["p99"] == pytest.approx(240)
    assert figures[OURS]["peak MiB"] == 1000
    found = report.ratios(figures)
    assert list(found) == [PEER]
    assert found[PEER]["p50"] == pytest.approx(0.5)
    assert found[PEER]["busy cores"] == pytest.approx(1)


def test_a_drain_is_counted_with_its_start_and_without() -> None:
    rounds = [Drain(30_000, 9.0, 4.0), Drain(30_000, 5.0, 6.0), Drain(30_000, 7.0, 5.0)]
    assert report.drain_figures(rounds) == {"start s": 7.0, "drain s": 5.0, "together s": 12.0}


def test_the_tables_fit_a_terminal_of_100_columns() -> None:
    shown = lines_of(command._latency_table(LOAD, {**LATENCIES, "Flink to Kafka": [latency(0.1)]}))
    assert f"{OURS} 80 160 240 0.50 0.25 1,000 50 to 90" in shown
    assert f"times {PEER} 0.50 0.50 0.50 1.00 1.00 1.00" in shown
    assert "times Flink to Kafka 0.80 0.80 0.80 1.00 1.00 1.00" in shown
    drains = {OURS: [Drain(30_000, 9.0, 4.0)], PEER: [Drain(30_000, 6.0, 5.0)]}
    shown = lines_of(command._drain_table(LOAD, drains))
    assert f"{OURS} 9.0 4.0 13.0 4.0 to 4.0" in shown
    assert f"times {PEER} 1.50 0.80 1.18" in shown


def test_without_drains_there_is_no_table_of_them() -> None:
    measured = Measured(LOAD, {}, LATENCIES)
    assert [type(part) for part in command._report(measured)] == [Table, str]
    measured.drains = {OURS: [Drain(1, 1.0, 1.0)], PEER: [Drain(1, 1.0, 1.0)]}
    assert [type(part) for part in command._report(measured)] == [Table, Table, str]


def test_every_round_is_a_point_of_the_chart_of_each_percentile(tmp_path: Path) -> None:
    found = list(points(LATENCIES))
    assert len(found) == 2 * 3 * 3
    assert {"side": PEER, "percentile": "p95", "milliseconds": 400.0} in found
    save_chart(LATENCIES, "a title", tmp_path / "new" / "chart.png")
    assert (tmp_path / "new" / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_cores_and_memory_are_those_of_the_window() -> None:
    taken = [
        (0, 0, 0, 900),
        (10, 20, 40, 100),
        (15, 21, 45, 300),
        (20, 25, 60, 200),
        (30, 99, 99, 9),
    ]
    samples = [Sample(at, own, machine, mib * MIB) for at, own, machine, mib in taken]
    found = usage_between(samples, 10, 20)
    assert found == Usage(busy_cores=0.5, other_cores=1.5, peak_mib=300)


def test_a_ratio_to_nothing_is_no_number() -> None:
    nothing = {"busy cores": 0.0}
    found = report.ratios({OURS: {"busy cores": 1.0}, PEER: nothing})
    assert math.isnan(found[PEER]["busy cores"])


@pytest.mark.parametrize(
    "samples", [[], [Sample(5, 1, 1, 1)], [Sample(5, 3, 3, 1), Sample(6, 0, 4, 0)]]
)
def test_a_window_without_a_rate_is_refused(samples: list[Sample]) -> None:
    with pytest.raises(MeasurementError):
        usage_between(samples, 0, 10)
