"""An hour of steady orders: is the last minute as the first? Memory, files and latency."""

import statistics
from dataclasses import dataclass

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.supervise.folder import mode_folder
from lockstep.supervise.heartbeat import read_heartbeat
from pizzeria.names import change_log_table
from pizzeria.shop.generator import generate

from lockstep_tools.soak import drivers
from lockstep_tools.soak.findings import Finding
from lockstep_tools.soak.report import Progress
from lockstep_tools.soak.scenarios import Bench, Scenario

MIB = 1024**2
MINUTE_SECONDS = 60.0
WARM_UP_MINUTES = 10
"""Until caches are full and the JVM's memory has settled; not compared."""
GROWTH_MAX = {"driver_mib": 1.15, "files": 1.5, "p50": 1.5, "p99": 2.0}
"""How much more the last third may have than the first one after the warm-up. Latencies vary with
what else the machine does, files with when the last compaction was."""
LATE_SECONDS_MAX = 5.0
"""Of the generator, behind its own clock: beyond it the hour had fewer orders than it says."""


@dataclass
class SteadyHour(Scenario):
    """A minute of orders is a step; the last one compares, and checks the newest versions.

    To follow all versions of an hour took longer than a quarter of one; whether they are right is
    other scenarios' matter.
    """

    minutes: int = 60
    rate: float = 100.0
    seed: int = 1
    name = "hour"

    def __post_init__(self) -> None:
        self.total = self.minutes

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        seed = self.seed * 1000 + number
        report = generate(bench.settings, rate=self.rate, seconds=MINUTE_SECONDS, seed=seed)
        sample = sampled(bench.settings, bench.modes)
        samples = progress.figures.setdefault("samples", [])
        samples.append({**sample, "late": round(report.late_seconds_max, 2)})
        if number < self.total - 1:
            return []
        return (
            undisturbed(samples, len(bench.modes))
            + compared(samples)
            + bench.check(every_version=False)
        )


def sampled(settings: Settings, modes: list[StreamMode]) -> dict[str, float]:
    """MiB of the drivers, files of all modes, the slowest mode's seconds; of modes that report."""
    beats = [read_heartbeat(settings, mode) for mode in modes]
    latencies = [beat.latency for beat in beats if beat is not None and beat.latency is not None]
    return {
        "modes": len(latencies),
        "driver_mib": round(drivers.resident_bytes(settings) / MIB),
        "files": sum(_files(settings, mode) for mode in modes),
        "p50": round(max((one.p50 for one in latencies), default=0.0), 3),
        "p99": round(max((one.p99 for one in latencies), default=0.0), 3),
    }


def _files(settings: Settings, mode: StreamMode) -> int:
    """Of the stream's own state, and of its table as it is now.

    What old versions need is kept for as long as Settings.stream_versions_kept_hours says, an hour
    at least, so that it cannot but grow for so long.
    """
    state = sum(1 for path in mode_folder(settings, mode).rglob("*") if path.is_file())
    return state + len(open_table(settings.table_uri(change_log_table(mode))).file_uris())


def undisturbed(samples: list[dict[str, float]], modes: int) -> list[Finding]:
    """A finding when the load was not what it was to be, or a mode reported no latency."""
    late = max(sample["late"] for sample in samples)
    reported = min(sample.get("modes", modes) for sample in samples[WARM_UP_MINUTES:] or samples)
    findings = []
    if late > LATE_SECONDS_MAX:
        findings.append(Finding("hour", "load", f"the generator was {late:g} s late"))
    if reported < modes:
        findings.append(Finding("hour", "latency", f"of {modes} modes {reported} reported theirs"))
    return findings


def compared(samples: list[dict[str, float]]) -> list[Finding]:
    """A finding for each figure whose median grew too much over the run."""
    settled = samples[WARM_UP_MINUTES:]
    third = len(settled) // 3
    findings = []
    for name, growth_max in GROWTH_MAX.items():
        if not third:
            break
        first, last = (
            statistics.median(sample[name] for sample in part)
            for part in (settled[:third], settled[-third:])
        )
        if last > first * growth_max:
            findings.append(Finding("hour", name, f"grew from {first:g} to {last:g}"))
    return findings
