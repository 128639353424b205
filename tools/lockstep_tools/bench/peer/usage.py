"""What processes take: busy cores and memory, of a process and all below it, and of the others."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from lockstep.observe.memory import process_tree, resident_bytes

from lockstep_tools.bench.memory import MIB
from lockstep_tools.errors import MeasurementError

SAMPLE_SECONDS = 0.5
BUSY_KINDS = ("user", "nice", "system", "irq", "softirq")
"""Of the machine's processor time; the systems do not all have each."""


@dataclass(frozen=True)
class Sample:
    """at: seconds since the epoch. cpu_seconds: since the processes began.

    machine_cpu_seconds: of all processes, since the machine began.
    """

    at: float
    cpu_seconds: float
    machine_cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True)
class Usage:
    """In a stretch of time: cores that were busy on average, and the most memory held.

    other_cores: those that all other processes of the machine kept busy.
    """

    busy_cores: float
    other_cores: float
    peak_mib: float


class UsageWatch:
    """Samples a process and its children from a thread of its own, until the block ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._samples: list[Sample] = []
        self._done = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "UsageWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def between(self, begins: float, ends: float) -> Usage:
        """Of this stretch. Raises what ended the sampling, and MeasurementError without samples."""
        if self._failure is not None:
            raise self._failure
        return usage_between(self._samples, begins, ends)

    def _work(self) -> None:
        try:
            while not self._done.wait(SAMPLE_SECONDS):
                held = resident_bytes(self._pid)
                taken = cpu_seconds(self._pid), machine_cpu_seconds()
                self._samples.append(Sample(time.time(), *taken, held))
        except Exception as error:  # raised again by between(), in the caller's thread
            self._failure = error


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, of all below it, and of those below it that have ended."""
    return sum(map(_cpu_seconds, process_tree(pid)), 0.0)


def machine_cpu_seconds() -> float:
    """Processor time of all processes."""
    times = psutil.cpu_times()._asdict()
    return sum(times.get(kind, 0.0) for kind in BUSY_KINDS)


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])  # user and system: its own, and of children that ended
    except psutil.NoSuchProcess:
        return 0.0


def usage_between(samples: Sequence[Sample], begins: float, ends: float) -> Usage:
    """Of the samples in this stretch (seconds since the epoch).

    Raises MeasurementError with fewer than two samples, or when the processes ended in between.
    """
    inside = [sample for sample in samples if begins <= sample.at <= ends]
    if len(inside) < 2:  # noqa: PLR2004 - a rate needs two
        raise MeasurementError(f"only {len(inside)} samples of a process in {ends - begins:.1f} s")
    first, last = inside[0], inside[-1]
    used = last.cpu_seconds - first.cpu_seconds
    machine = last.machine_cpu_seconds - first.machine_cpu_seconds
    seconds = last.at - first.at
    if used < 0:
        raise MeasurementError("the process that was measured has ended meanwhile")
    peak = max(sample.resident_bytes for sample in inside)
    return Usage(used / seconds, (machine - used) / seconds, peak / MIB)
