"""What the streams report, for Prometheus: one page on loopback shows all of them.

    python -m lockstep.observe.prometheus

A process of its own, which `lockstep up` starts: it reads the files of supervise, so it also
reports of a stream whose driver is dead, and asks nothing of one that works. No Spark, no Delta.
"""

import signal
from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lockstep.errors import LockstepError, ServiceError, exit_on_error
from lockstep.model.modes import HISTORY, PUBLISHER, StreamMode
from lockstep.pipeline.names import SEPARATOR
from lockstep.pipeline.pipeline_names import own_pipeline
from lockstep.settings import Settings
from lockstep.supervise.desired import DesiredState
from lockstep.supervise.folder import workers
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import Heartbeat
from lockstep.supervise.observation import Observation, observe

QUERIES = (*StreamMode, HISTORY, PUBLISHER)
TOTAL = "total"
_QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99"}
_NOT_UP = (Health.STOPPED, Health.DEAD, Health.FAILED)

GAUGES = {
    "up": "1 when a driver runs the stream, 0 when none does",
    "wanted": "1 when the stream shall run, 0 when it was stopped on purpose or never started",
    "rows_per_second": "Rows written to the change log, lately",
    "lag_bytes": "Write-ahead log from the frontier to the database's present position",
    "lag_seconds": "How long the frontier is behind the database",
    "micro_batch_seconds": "How long a write takes",
    "state_rows": "Changes of transactions under way, and versions of dimensions kept in memory",
    "driver_memory_bytes": "Memory of the stream's driver, its JVM included; modes of one share it",
    "incomplete_transactions": "Transactions of which changes are missing",
    "incomplete_transaction_age_seconds": "Age of the oldest transaction with changes missing",
    "frontier_age_seconds": "Since the database committed the last transaction that is written",
    "progress_age_seconds": "Since the stream last got on in the change topic",
    "heartbeat_age_seconds": "Since the driver last gave a sign of life",
}
COUNTERS = {
    "rows": "Rows written to the change log since the driver started",
    "restarts": "Restarts by the supervision since the stream was last started on purpose",
}


class StreamCollector(Collector):
    """Looks at every stream's files each time it is asked."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> Iterator[Metric]:
        """Every query in `up`, `wanted` and `health`; in the others those whose value is known.

        Those of other pipelines, by their addresses, from when they were first started. The label
        `pipeline` is empty for a source's history.
        """
        modes = dict.fromkeys([*map(str, QUERIES), *workers(self._settings)])
        seen = {mode: self._observed(mode) for mode in modes}
        values = {mode: _values(observation) for mode, observation in seen.items()}
        pipelines = self._pipelines(modes)
        for kind, described in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, description in described.items():
                family = kind(f"lockstep_stream_{name}", description, labels=["mode", "pipeline"])
                for mode, known in values.items():
                    if known.get(name) is not None:
                        family.add_metric([mode, pipelines[mode]], known[name])
                yield family
        yield _health(seen, pipelines)
        yield _latency(seen, pipelines)

    def _pipelines(self, modes: Iterable[str]) -> dict[str, str]:
        own = own_pipeline(self._settings.project)
        found = {}
        for mode in modes:
            pipeline, _, of_address = mode.rpartition(SEPARATOR)
            found[mode] = "" if of_address == HISTORY else pipeline or own
        return found

    def _observed(self, mode: str) -> Observation | None:
        """None when its files cannot be read: then it counts as wanted and down."""
        try:
            return observe(self._settings, mode)
        except (LockstepError, OSError):
            return None


def _health(seen: dict[str, Observation | None], pipelines: dict[str, str]) -> Metric:
    family = GaugeMetricFamily(
        "lockstep_stream_health",
        "1 for what the stream is: " + ", ".join(Health),
        labels=["mode", "health", "pipeline"],
    )
    for mode, observation in seen.items():
        for health in Health:
            is_it = observation is not None and observation.finding.health is health
            family.add_metric([mode, health, pipelines[mode]], float(is_it))
    return family


def _latency(seen: dict[str, Observation | None], pipelines: dict[str, str]) -> Metric:
    """A gauge, for a window's quantiles are no sum that Prometheus could go on counting."""
    family = GaugeMetricFamily(
        "lockstep_stream_latency_seconds",
        "From the database's commit to readable in Delta, in the last five minutes",
        labels=["mode", "hop", "quantile", "pipeline"],
    )
    for mode, observation in seen.items():
        beat = observation.heartbeat if observation and _is_up(observation) else None
        if beat is None or beat.latency is None:
            continue
        for hop, found in {TOTAL: beat.latency, **beat.latency.hops}.items():
            for quantile, field in _QUANTILES.items():
                family.add_metric([mode, hop, quantile, pipelines[mode]], getattr(found, field))
    return family


def _values(observation: Observation | None) -> dict[str, float | None]:
    """By names of GAUGES and COUNTERS; of a dead stream only what is true without a driver."""
    if observation is None:
        return {"up": 0, "wanted": 1}
    desired, beat, at = observation.desired, observation.heartbeat, observation.at
    up = _is_up(observation)
    return {
        "up": up,
        "wanted": desired is not None and desired.state is DesiredState.RUNNING,
        "restarts": desired.restarts if desired else None,
        **(_ages(beat, at) if beat else {}),
        **(_of_a_live_driver(beat) if beat and up else {}),
    }


def _is_up(observation: Observation) -> bool:
    return observation.holder is not None and observation.finding.health not in _NOT_UP


def _ages(beat: Heartbeat, at: datetime) -> dict[str, float | None]:
    moments = {
        "frontier_age_seconds": beat.frontier_committed_at,
        "progress_age_seconds": beat.last_progress_at,
        "heartbeat_age_seconds": beat.beat_at,
    }
    return {
        name: None if moment is None else max(0.0, (at - moment).total_seconds())
        for name, moment in moments.items()
    }


def _of_a_live_driver(beat: Heartbeat) -> dict[str, float | None]:
    same_name = {name: getattr(beat, name) for name in GAUGES if hasattr(beat, name)}
    return {
        **same_name,
        "rows": beat.rows_total,
        "incomplete_transactions": len(beat.incomplete),
        "incomplete_transaction_age_seconds": max(
            (one.age_seconds for one in beat.incomplete), default=0.0
        ),
    }


def serve(settings: Settings) -> None:
    """Answer at settings.metrics_url until a signal ends the process. Raises ServiceError."""
    registry = CollectorRegistry()
    registry.register(StreamCollector(settings))
    try:
        start_http_server(settings.metrics_port, settings.metrics_host, registry)
    except OSError as error:
        raise ServiceError(
            f"{settings.metrics_url} cannot be served: {error.strerror}; set LOCKSTEP_METRICS_PORT"
        ) from error
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


def main() -> None:
    # Blocked before the server's threads are made, so that none of them takes the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    serve(Settings.load())


if __name__ == "__main__":
    with exit_on_error():
        main()
