"""The driver: one process, one Spark session, a runner for each mode it was started with.

It takes the leases first, so that a mode never has two drivers, and gives each back when the mode
is dropped: because someone wishes it stopped, or because it failed. A mode that fails does not take
the others along. SIGTERM stops all after the micro-batches under way. While no temporal mode runs
anywhere, nor is about to, a driver also hosts the `history` query: all comparisons wait for it.
"""

import math
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from lockstep.contracts import HISTORY, StreamMode
from lockstep.errors import LockstepError, PoisonedRecordError, StreamBusyError
from lockstep.observe.stream_metrics import StreamMetrics
from lockstep.settings import Settings
from lockstep.sources.capture import current_xid
from lockstep.spark import stream_session
from lockstep.streams import identity, modes
from lockstep.streams.capture_watch import CaptureWatch
from lockstep.streams.given_up import given_up
from lockstep.streams.heartbeats import Beats, DatabaseClock
from lockstep.streams.runner import Runner
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, is_wished, read_desired
from lockstep.supervise.heartbeat import DriverState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.5
BEAT_SECONDS = 1.0
HISTORY_PAUSE_SECONDS = 30.0
"""After the history query failed, before it is tried again, also after a record that could not be
read: nobody starts it by hand once that is given up with `lockstep stream skip`."""
TEMPORAL_AWAY_SECONDS = 60.0
"""A temporal mode that shall run and does not is about to be restarted; after this it is not."""


class Driver:
    """Hosts the modes until each is dropped; `run` gives the exit code."""

    def __init__(self, settings: Settings, wanted: Sequence[StreamMode]) -> None:
        self._settings = settings
        self._wanted = [str(mode) for mode in wanted]
        self._leases: dict[str, lease.Lease] = {}
        self._runners: dict[str, Runner] = {}
        self._beats = Beats(settings)
        self._capture = CaptureWatch(settings)
        self._clock, self._metrics = DatabaseClock(settings), StreamMetrics(settings)
        self._beaten = 0.0
        self._history_not_before = 0.0
        self._temporal_seen = time.monotonic()
        self._asked_to_stop = threading.Event()
        self._has_failed = False
        self._spark: SparkSession | None = None

    def run(self) -> int:
        """Returns 0 when every mode was stopped on purpose, 2 when one failed.

        Raises StreamBusyError when another process runs one of the modes, before anything starts.
        """
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: self._asked_to_stop.set())
        self._take_leases()
        try:
            for mode in self._wanted:
                self._beats.say(mode, DriverState.STARTING)
            self._spark = self._session()
            for mode in self._wanted:
                self._start(mode)
            self._capture.start()
            self._watch()
        except Exception as error:
            for mode in list(self._leases):
                self._drop(mode, error)
            if not isinstance(error, LockstepError):
                raise  # a defect: the log shows where
        finally:
            self._capture.end()
            for mode in list(self._leases):
                self._drop(mode)
        return 2 if self._has_failed else 0

    def _take_leases(self) -> None:
        for mode in self._wanted:
            self._leases[mode] = lease.acquire(self._settings, mode)

    def _session(self) -> "SparkSession":
        name = f"lockstep streams {' '.join(self._wanted)}"
        held = [taken.fileno() for taken in self._leases.values()]
        return stream_session(self._settings, name, held)

    def _start(self, mode: str) -> None:
        """Start one runner; a mode that cannot start, for whatever reason, is dropped with it."""
        try:
            modes.make_tables(self._settings, mode)
            claimed = identity.claim(self._settings, mode)
            self._capture.follow(mode, claimed)
            sink = modes.sink_of(self._spark, self._settings, mode, claimed.capture_id)
            runner = Runner(
                self._settings,
                mode,
                sink,
                xid_near=current_xid(self._settings),
                given_up=given_up(self._settings),
                stage=modes.stage_of(mode),
            )
            location = identity.checkpoint_location(self._settings, mode)
            runner.start(self._spark, location, neighbours=len(self._wanted) - 1)
        except Exception as error:
            if not isinstance(error, LockstepError):
                traceback.print_exception(error)  # a defect, or Spark's: the log shows where
            self._drop(mode, error)
            return
        self._runners[mode] = runner
        self._beats.say(mode, DriverState.RUNNING, runner)

    def _watch(self) -> None:
        """Until no mode is left: drop what failed or is no longer wished, and tell how it goes."""
        while any(mode in self._runners for mode in self._wanted):
            if self._asked_to_stop.wait(POLL_SECONDS):
                return
            for mode, runner in list(self._runners.items()):
                if (failure := runner.failure()) is not None:
                    self._drop(mode, self._capture.cause_of(mode, failure))
                elif (failure := self._capture.failure(mode)) is not None:
                    self._drop(mode, failure)
                elif not self._is_wished(mode):
                    self._drop(mode)
            self._host_history()
            self._beat_when_due()

    def _beat_when_due(self) -> None:
        if time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        self._clock.read()
        beats = [
            self._beats.say(mode, DriverState.RUNNING, runner, self._clock)
            for mode, runner in self._runners.items()
        ]
        self._metrics.write_when_due(beats)

    def _is_wished(self, mode: str) -> bool:
        if mode == HISTORY:
            return not self._temporal_writes_history()
        desired = read_desired(self._settings, mode)
        return desired is None or desired.state is DesiredState.RUNNING

    def _temporal_writes_history(self) -> bool:
        """Whether a temporal mode has it, in whichever driver, or is about to take it."""
        if not is_wished(self._settings, StreamMode.TEMPORAL):
            return False
        if lease.holder(self._settings, StreamMode.TEMPORAL) is not None:
            self._temporal_seen = time.monotonic()
        return time.monotonic() - self._temporal_seen < TEMPORAL_AWAY_SECONDS

    def _host_history(self) -> None:
        """Take on the history query when nobody writes the history, here or elsewhere."""
        if HISTORY in self._leases or StreamMode.TEMPORAL in self._runners:
            return
        if time.monotonic() < self._history_not_before or self._temporal_writes_history():
            return
        try:
            self._leases[HISTORY] = lease.acquire(self._settings, HISTORY)
        except StreamBusyError:
            return
        self._start(HISTORY)

    def _drop(self, mode: str, failure: BaseException | None = None) -> None:
        """End one mode, say how it ended, and give its lease back."""
        runner = self._runners.pop(mode, None)
        if failure is not None:
            self._has_failed = self._has_failed or mode != HISTORY
            if mode == HISTORY:
                helps = getattr(failure, "restart_helps", True)
                helps = helps or isinstance(failure, PoisonedRecordError)
                pause_seconds = HISTORY_PAUSE_SECONDS if helps else math.inf
                self._history_not_before = time.monotonic() + pause_seconds
        self._capture.forget(mode)
        if runner is not None:
            # A failure is told at once: a micro-batch that waits for Kafka takes a minute to end.
            ending = DriverState.STOPPING if failure is None else DriverState.FAILED
            self._beats.say(mode, ending, runner, failure=failure)
            self._end(runner)
        state = DriverState.STOPPED if failure is None else DriverState.FAILED
        self._beats.say(mode, state, runner, failure=failure)
        held = self._leases.pop(mode, None)
        if held is not None:
            held.release()

    def _end(self, runner: Runner) -> None:
        """After its micro-batch, which may take minutes: the other modes go on, and say so."""
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(runner.stop)
            while not wait([ended], BEAT_SECONDS).done:
                self._beat_when_due()
        ended.result()
