"""The ways of a record from Kafka to the driver, on a real broker: each record comes once."""

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from lockstep.settings import Settings
from lockstep_tools.bench import stream_stack, transport
from lockstep_tools.bench.latency import Distribution
from lockstep_tools.bench.transport import Way
from lockstep_tools.commands import bench as command
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.services
def test_each_way_gives_all_records(
    change_capture: Settings, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "stop", lambda: None)  # the tests' session goes on
    monkeypatch.setattr(transport, "stream_session", lambda *_: spark)
    monkeypatch.setattr(transport, "WARM_UP_SECONDS", 2.0)
    measured = transport.measure(change_capture, 20.0, 5.0, lambda _: None)
    assert [one.way for one in measured] == list(Way)
    assert {one.records for one in measured} == {100}
    assert all(0 < one.latency.p50 <= one.latency.p99 for one in measured)


def test_the_table_has_a_line_for_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        transport.Measured(way, 10, Distribution(0.001, 0.002, 0.003, 0.001), 0.1) for way in Way
    ]
    monkeypatch.setattr(transport, "measure", lambda *_: found)
    monkeypatch.setattr(stream_stack, "stream_stack", lambda *_: nullcontext(Settings.load()))
    shown = CliRunner().invoke(command.group, ["transport", "--json"])
    assert [one["way"] for one in json.loads(shown.stdout)] == list(Way)
    shown = CliRunner().invoke(command.group, ["transport"], env={"COLUMNS": "100"})
    assert all(f"{way} " in shown.output for way in Way)
    assert "1.0" in shown.output
