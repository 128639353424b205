"""The page for Prometheus: every stream is on it, and a dead one is not shown as it once was."""

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lockstep.errors import ServiceError
from lockstep.model.modes import HISTORY, PUBLISHER, StreamMode
from lockstep.observe import prometheus
from lockstep.observe.prometheus import StreamCollector, serve
from lockstep.settings import Settings
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, desired_path, write_desired
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    HeartbeatError,
    IncompleteTransaction,
    Latency,
    Percentiles,
    write_heartbeat,
)
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

OUTBOX = StreamMode.OUTBOX
Samples = dict[tuple[str, ...], float]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def running(settings: Settings) -> Iterator[lease.Lease]:
    """The outbox as its driver leaves it at work: a desired state, a lease, a heartbeat."""
    write_desired(settings, OUTBOX, DesiredState.RUNNING, "a test", restarts=3)
    held = lease.acquire(settings, OUTBOX)
    beat(settings)
    yield held
    held.release()


def beat(settings: Settings, **changed: object) -> None:
    now = datetime.now(UTC)
    known = {
        "mode": OUTBOX,
        "pid": os.getpid(),
        "driver_started_at": now - timedelta(minutes=5),
        "beat_at": now,
        "state": DriverState.RUNNING,
        "frontier_committed_at": now - timedelta(seconds=2),
        "last_progress_at": now - timedelta(seconds=1),
        "rows_total": 1234,
        "rows_per_second": 50.5,
        "lag_bytes": 2048,
        "lag_seconds": 0.25,
        "latency": Latency(0.2, 0.4, 0.8, {"write": Percentiles(0.02, 0.04, 0.08)}),
        "micro_batch_seconds": 0.11,
        "state_rows": 7,
        "driver_memory_bytes": 700,
        "incomplete": (IncompleteTransaction(9, 12.5, 1, 2), IncompleteTransaction(8, 3.0, 0, 4)),
    }
    write_heartbeat(settings, Heartbeat(**{**known, **changed}))


def scraped(settings: Settings) -> Samples:
    """What Prometheus would read: name without `lockstep_stream_`, then the labels' values.

    But for the pipeline.
    """
    found = {}
    for sample in samples_of(settings):
        labels = (value for name, value in sample.labels.items() if name != "pipeline")
        found[sample.name.removeprefix("lockstep_stream_"), *labels] = sample.value
    return found


def samples_of(settings: Settings) -> list[Sample]:
    registry = CollectorRegistry()
    registry.register(StreamCollector(settings))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [sample for family in families for sample in family.samples]


def health_of(samples: Samples, mode: str = OUTBOX) -> set[str]:
    return {
        key[1] if key[2] == mode else key[2]
        for key, value in samples.items()
        if key[0] == "health" and mode in key and value == 1
    }


def test_every_stream_is_shown_before_any_was_started(settings: Settings) -> None:
    samples = scraped(settings)
    for mode in (*StreamMode, HISTORY):
        assert samples["up", mode] == samples["wanted", mode] == 0
        assert health_of(samples, mode) == {"stopped"}


def test_each_sample_has_the_pipeline_of_its_stream_and_a_history_none(
    settings: Settings, running: lease.Lease
) -> None:
    write_desired(settings, "readings__outbox", DesiredState.RUNNING, "a test")
    found = {sample.labels["mode"]: sample.labels["pipeline"] for sample in samples_of(settings)}
    own = settings.names.pipeline
    assert found == {
        **dict.fromkeys([*map(str, StreamMode), PUBLISHER], own),
        HISTORY: "",
        "readings__outbox": "readings",
    }


def test_a_stream_of_another_pipeline_is_shown_by_its_address(settings: Settings) -> None:
    write_desired(settings, "readings__outbox", DesiredState.RUNNING, "a test")
    samples = scraped(settings)
    assert (samples["up", "readings__outbox"], samples["wanted", "readings__outbox"]) == (0, 1)
    assert (samples["up", OUTBOX], samples["wanted", OUTBOX]) == (0, 0)
    assert health_of(samples, "readings__outbox") == {"starting"}


@pytest.mark.usefixtures("running")
def test_a_stream_at_work_shows_all_that_its_driver_says(settings: Settings) -> None:
    samples = scraped(settings)
    assert samples["up", OUTBOX] == samples["wanted", OUTBOX] == 1
    assert health_of(samples) == {"ok"}
    said = {
        "rows_total": 1234,
        "rows_per_second": 50.5,
        "lag_bytes": 2048,
        "lag_seconds": 0.25,
        "micro_batch_seconds": 0.11,
        "state_rows": 7,
        "driver_memory_bytes": 700,
        "restarts_total": 3,
        "incomplete_transactions": 2,
        "incomplete_transaction_age_seconds": 12.5,
    }
    assert {name: samples[name, OUTBOX] for name in said} == said
    assert samples["frontier_age_seconds", OUTBOX] == pytest.approx(2, abs=1)
    assert samples["progress_age_seconds", OUTBOX] == pytest.approx(1, abs=1)
    assert samples["latency_seconds", "total", OUTBOX, "0.5"] == 0.2
    assert samples["latency_seconds", "write", OUTBOX, "0.99"] == 0.08
    assert ("lag_seconds", StreamMode.TEMPORAL) not in samples


def test_a_dead_stream_is_down_and_its_last_figures_are_gone(
    settings: Settings, running: lease.Lease
) -> None:
    running.release()
    samples = scraped(settings)
    assert (samples["up", OUTBOX], samples["wanted", OUTBOX]) == (0, 1)
    assert health_of(samples) == {"dead"}
    assert samples["restarts_total", OUTBOX] == 3
    assert samples["heartbeat_age_seconds", OUTBOX] >= 0
    shown = {key[0] for key in samples if OUTBOX in key}
    assert shown.isdisjoint({"lag_seconds", "rows_per_second", "latency_seconds", "rows_total"})


@pytest.mark.parametrize(
    ("changed", "health", "up"),
    [
        ({"beat_at": datetime.now(UTC) - timedelta(minutes=10)}, "stalled", 1),
        ({"lag_seconds": 3600.0}, "lagging", 1),
        ({"state": DriverState.FAILED, "error": HeartbeatError("StreamError", "x")}, "failed", 0),
        (
            {"state": DriverState.STARTING, "beat_at": datetime.now(UTC) - timedelta(minutes=10)},
            "stalled",
            1,
        ),
    ],
)
@pytest.mark.usefixtures("running")
def test_what_ails_a_stream_is_named(
    settings: Settings, changed: dict, health: str, up: int
) -> None:
    beat(settings, **changed)
    samples = scraped(settings)
    assert health_of(samples) == {health}
    assert samples["up", OUTBOX] == up


@pytest.mark.usefixtures("running")
def test_a_stream_stopped_on_purpose_is_not_wanted(settings: Settings) -> None:
    write_desired(settings, OUTBOX, DesiredState.STOPPED, "a test")
    samples = scraped(settings)
    assert (samples["up", OUTBOX], samples["wanted", OUTBOX]) == (0, 0)


def test_a_stream_whose_files_cannot_be_read_counts_as_wanted_and_down(settings: Settings) -> None:
    desired_path(settings, OUTBOX).parent.mkdir(parents=True)
    desired_path(settings, OUTBOX).write_text("{")
    samples = scraped(settings)
    assert (samples["up", OUTBOX], samples["wanted", OUTBOX]) == (0, 1)
    assert samples["wanted", StreamMode.LOOKUP] == 0


def test_every_metric_is_described() -> None:
    for name, description in {**prometheus.GAUGES, **prometheus.COUNTERS}.items():
        assert description
        assert not name.endswith("_total")  # the library adds it to what only grows


def test_a_port_in_use_is_named(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = settings.model_copy(update={"metrics_port": port})
        with pytest.raises(ServiceError, match=f"{port}.*LOCKSTEP_METRICS_PORT"):
            serve(own)
