"""`lockstep bench latency`: hops that add up to the total, and figures refused when they do not."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from lockstep.model.modes import StreamMode
from lockstep.observe.latency import HOPS
from lockstep.settings import Settings
from lockstep_tools.bench import latency, stream_stack
from lockstep_tools.bench.change_rows import COLUMNS, VISIBLE_AT
from lockstep_tools.bench.latency import Measured, ModeLatency, latency_of, require_accounted
from lockstep_tools.bench.paced_orders import Placed
from lockstep_tools.commands import bench as command
from lockstep_tools.errors import MeasurementError
from typer.testing import CliRunner

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOP_MS = dict(zip(HOPS, (10, 100, 5, 15), strict=True))
TOTAL_MS = sum(HOP_MS.values())


def rows(*commits: datetime) -> pa.Table:
    """A row of each commit, with the hops of HOP_MS."""
    found: dict[str, list] = {name: [] for name in (*COLUMNS, VISIBLE_AT)}
    for order_id, commit in enumerate(commits):
        moments = [commit]
        for milliseconds in HOP_MS.values():
            moments.append(moments[-1] + timedelta(milliseconds=milliseconds))
        for name, value in zip(found, (order_id, order_id + 1, *moments), strict=True):
            found[name].append(value)
    return pa.table(found)


def placed(*commits: datetime, answer_ms: float) -> Placed:
    """As if the shop had its answer so long after each commit."""
    heard = {
        order_id: int((commit.timestamp() + answer_ms / 1000) * 1e9)
        for order_id, commit in enumerate(commits)
    }
    return Placed(acknowledged_ns=heard)


def found(answer_ms: float = 0.0) -> ModeLatency:
    commits = [NOON + timedelta(seconds=second) for second in range(5)]
    shop = placed(*commits, answer_ms=answer_ms)
    return latency_of(StreamMode.OUTBOX, rows(*commits), shop, NOON + timedelta(seconds=2))


def test_the_warm_up_is_left_out_and_hops_add_up() -> None:
    measured = found()
    assert measured.rows == 3
    assert measured.parts["total"].p50 == pytest.approx(TOTAL_MS / 1000)
    assert [measured.parts[hop].p99 for hop in HOPS] == pytest.approx(
        [milliseconds / 1000 for milliseconds in HOP_MS.values()]
    )
    assert measured.hops_of_seen == pytest.approx(1, abs=1e-3)
    require_accounted([measured])


@pytest.mark.parametrize("answer_ms", [20.0, -20.0])
def test_hops_that_do_not_add_up_to_what_the_shop_saw_are_refused(answer_ms: float) -> None:
    with pytest.raises(MeasurementError, match=r"of outbox (118|86)\.\d% of the total"):
        require_accounted([found(), found(answer_ms)])


def test_within_five_percent_the_figures_stand() -> None:
    require_accounted([replace(found(), hops_of_seen=share) for share in (0.951, 1.049)])
    for share in (0.949, 1.051, float("nan")):
        with pytest.raises(MeasurementError):
            require_accounted([replace(found(), hops_of_seen=share)])


def test_a_run_without_a_row_after_the_warm_up_is_refused() -> None:
    with pytest.raises(MeasurementError, match="outbox wrote no row"):
        latency_of(StreamMode.OUTBOX, rows(NOON), Placed(), NOON + timedelta(seconds=1))


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_command_prints_what_it_measured_and_fails(
    as_json: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def no_stack(settings: Settings):
        yield settings

    measured = Measured(50, 5, 0.01, [replace(found(), hops_of_seen=0.8)])
    monkeypatch.setattr(stream_stack, "stream_stack", no_stack)
    monkeypatch.setattr(latency, "measure", lambda *_: measured)
    ended = CliRunner().invoke(command.group, ["latency", *as_json])
    assert isinstance(ended.exception, MeasurementError)
    assert ("80.0%" if not as_json else '"hops_of_seen": 0.8') in ended.output
