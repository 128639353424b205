"""The driver: one process, one Spark session, a runner for each stream that it hosts.

The streams are modes of one pipeline, or of several of one source. Each goes by its mode where it
is of the pipeline that is worked for, else by its address; "mode" here is either. A source's first
driver also takes in the streams that are started later (supervise/source_driver.py).

It takes the leases first, so that a mode never has two drivers, and gives each back when the mode
is dropped: because it is to be stopped, or because it failed. A mode that fails does not take
the others along, whatever of it fails: its query, its heartbeat, its end. A desired state that
cannot be read changes nothing: the mode goes on and reports it, for a stop writes the file again,
whole. SIGTERM stops all after the writes under way. The first driver also hosts the writer
of the source's history, for which comparisons wait; when that driver ends, another takes it on.
"""

import logging
import math
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lockstep.errors import LockstepError, StreamError
from lockstep.host.memory import FreeMemory, collect_less
from lockstep.model.modes import HISTORY
from lockstep.observe.stream_metrics import StreamMetrics
from lockstep.pipeline.errors import PipelineError
from lockstep.settings import Settings
from lockstep.sources.capture import current_xid
from lockstep.spark import is_alive, stream_session
from lockstep.streams import identity
from lockstep.streams.capture_watch import CaptureWatch
from lockstep.streams.heartbeats import Beats, DatabaseClock
from lockstep.streams.history_tries import HistoryTries
from lockstep.streams.modes import Modes
from lockstep.streams.runner import Runner
from lockstep.streams.runners import RunnerMaker, checkpoint_location
from lockstep.streams.versions import SharedVersions
from lockstep.supervise import lease, source_driver
from lockstep.supervise.desired import DesiredState, read_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import stream_of
from lockstep.supervise.heartbeat import DriverState, Heartbeat
from lockstep.supervise.logs import log_of, point_to_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BEAT_SECONDS = 1.0
JVM_ENDS_SECONDS = 1.0
"""Since a stream failed, for the JVM's end to show: its connections break first."""
SETTLED_SECONDS = 10.0
"""Since a stream joined, before those that run already get their new share of the cores."""


class Driver:
    """Hosts the modes until each is dropped; `run` gives the exit code.

    failures: what ended each mode that was not stopped on purpose, the first of them first.
    """

    def __init__(
        self, settings: Settings, wanted: Sequence[str], *, takes_others: bool = False
    ) -> None:
        """wanted: modes of the pipeline that is worked for, addresses of others of its source.

        takes_others: become the source's driver, which others of its streams join, unless there is
        one already.
        """
        self._settings = settings
        self._takes_others = takes_others
        self._source_lease: lease.Lease | None = None
        self._started_at = datetime.now(UTC)
        self._asked_at: dict[str, datetime] = {}
        self._shared_at = math.inf
        self._wanted = [str(mode) for mode in wanted]
        self._streams = {mode: stream_of(settings, mode) for mode in (*self._wanted, HISTORY)}
        self._leases: dict[str, lease.Lease] = {}
        self._runners: dict[str, Runner] = {}
        self._beats = Beats(settings)
        self._capture = CaptureWatch(settings)
        self._clock, self._metrics = DatabaseClock(settings), StreamMetrics(settings)
        self._free_memory = FreeMemory()
        self._beaten = 0.0
        self._history = HistoryTries()
        self._modes: dict[str, Modes] = {}
        self._versions = SharedVersions()
        self._asked_to_stop = threading.Event()
        self.failures: dict[str, BaseException] = {}
        self._defects: dict[str, Exception] = {}
        self._unreadable: dict[str, Exception] = {}
        self._spark: SparkSession | None = None
        self._maker: RunnerMaker | None = None
        self._gathered = threading.Event()

    def run(self) -> int:
        """Returns 0 when every mode was stopped on purpose, 2 when one failed.

        Raises StreamBusyError when another process runs one of the modes, and PipelineError for
        streams of different sources, before anything starts.
        """
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: self._asked_to_stop.set())
        self.take_leases()
        try:
            for mode in self._wanted:
                self._beats.starts(mode)
            self._read_folders()
            if self._leases:
                self._work()
        except Exception as error:
            self._drop_all(error)
            if not isinstance(error, LockstepError):
                raise  # a defect: the log shows where
        finally:
            self._capture.end()
            self._drop_all()
        return 2 if self.failures else 0

    def _require_one_source(self) -> None:
        sources = {of.names.source for of, _ in self._streams.values()}
        if len(sources) > 1:
            raise PipelineError(
                f"{', '.join(self._wanted)} are of the sources {', '.join(sorted(sources))}: start "
                "a driver for each source"
            )

    def take_leases(self) -> None:
        """Take the modes, unless that is done. Raises StreamBusyError, PipelineError as `run`."""
        self._require_one_source()
        for mode in self._wanted:
            if mode not in self._leases:
                self._leases[mode] = lease.acquire(self._settings, mode)
        if self._takes_others:
            with suppress(StreamBusyError):  # another one is the source's driver
                self._source_lease = lease.acquire_source(self._settings, self._wanted[0])

    def _session(self) -> "SparkSession":
        name = f"lockstep streams {' '.join(self._wanted)}"
        taken = [self._source_lease, *self._leases.values()]
        held = [one.fileno() for one in taken if one is not None]
        return stream_session(self._settings, name, held)

    def _start(self, mode: str) -> None:
        """Start one runner; a mode that cannot start, for whatever reason, is dropped with it."""
        with ThreadPoolExecutor(1) as pool:
            started = self._beating_until(pool.submit(self._started, mode))
        if (error := started.exception()) is not None:
            if not isinstance(error, LockstepError):
                traceback.print_exception(error)  # a defect, or Spark's: the log shows where
            self._drop(mode, error)
            return
        self._runners[mode] = started.result()
        self._say(mode, DriverState.RUNNING, self._runners[mode])

    def _started(self, mode: str) -> Runner:
        (of, own_mode), modes = self._streams[mode], self._modes[mode]
        progressed = partial(self._note_progress, mode)
        modes.make_table(own_mode)
        claimed = identity.claim(of, own_mode)
        self._capture.follow(mode, claimed)
        sink = modes.sink_of(self._spark, own_mode, claimed.capture_id, progressed=progressed)
        modes.begin(own_mode, sink, progressed)
        location = checkpoint_location(of, own_mode)
        runner = self._runner_maker().runner(modes, own_mode, sink, location, mode)
        runner.start(neighbours=len(self._hosted) - 1)
        return runner

    def _runner_maker(self) -> RunnerMaker:
        xid_near = current_xid(self._settings)
        if self._maker is None:
            modes = self._modes[HISTORY]
            self._maker = RunnerMaker.of(
                self._settings, self._spark, modes, xid_near, self._gathered
            )
        self._maker.readers.xid_near = xid_near
        return self._maker

    def _note_progress(self, starting: str) -> None:
        """A mode reads much before it works: it beats, and so do those that wait for it.

        Raises StreamError when the driver is to stop.
        """
        if self._asked_to_stop.is_set():
            raise StreamError(f"{starting} was asked to stop while it started")
        waiting = [mode for mode in self._hosted if mode not in self._runners]
        for mode in {starting, *waiting}:
            self._beats.say(mode, DriverState.STARTING)

    @property
    def _hosted(self) -> list[str]:
        """The streams that it has now; the history is none."""
        return [mode for mode in self._wanted if mode in self._leases]

    def _read_folders(self) -> None:
        for mode in self._wanted:
            self._read_folder(mode)

    def _read_folder(self, mode: str) -> None:
        """A pipeline whose folder has problems is dropped, before Spark, and takes no other along.

        The history goes with any pipeline of its source.
        """
        try:
            self._modes[mode] = Modes.of(self._streams[mode][0], (), self._versions)
        except LockstepError as error:
            self._drop(mode, error)
        else:
            self._modes.setdefault(HISTORY, self._modes[mode])

    def _work(self) -> None:
        """Until no mode is left, or all are to stop."""
        self._capture.start()
        self._spark = self._session()
        self._host_history()
        for mode in [mode for mode in self._wanted if mode in self._leases]:
            self._start(mode)
        self._gathered.set()
        collect_less()
        self._watch()

    def _watch(self) -> None:
        """Until no mode is left: drop what failed or is not desired; publish heartbeats."""
        while any(mode in self._runners for mode in self._wanted):
            if self._asked_to_stop.wait(POLL_SECONDS):
                return
            if not is_alive(self._spark):
                self._drop_all(StreamError("Spark's JVM, which the streams share, has ended"))
                return
            for mode, runner in list(self._runners.items()):
                self._look_after(mode, runner)
            self._take_in_others()
            self._share_cores()
            self._host_history()
            self._beat_when_due()
            self._free_memory.return_when_due()

    def _take_in_others(self) -> None:
        """Host the streams of the source that were asked of this driver since it started."""
        if self._source_lease is None:
            return
        for mode, desired in source_driver.asked(self._settings, self._started_at).items():
            if desired.changed_at != self._asked_at.get(mode):
                self._asked_at[mode] = desired.changed_at
                self._take_in(mode)

    def _take_in(self, mode: str) -> None:
        """What keeps the stream from its start ends it alone, and its heartbeat says it."""
        try:
            self._leases[mode] = lease.acquire(self._settings, mode)
        except (LockstepError, OSError) as error:  # run by another driver, or rebuilt
            log.warning("%s is not taken in: %s", mode, error)
            return
        self._streams[mode] = stream_of(self._settings, mode)
        self._wanted = list(dict.fromkeys([*self._wanted, mode]))
        self.failures.pop(mode, None)
        point_to_log(self._settings, mode, log_of(self._settings, self._wanted[0]).resolve())
        self._beats.starts(mode)
        self._read_folder(mode)
        if mode in self._leases:
            self._renew_history(mode)
            self._start(mode)
            self._shared_at = time.monotonic() + SETTLED_SECONDS

    def _share_cores(self) -> None:
        """Start again those that were started for half of the streams there are now, or for less.

        A stream pauses for its neighbours' sake. How long a query of Spark's does is set when it
        starts; others adapt.
        """
        for runner in self._runners.values():
            if runner.adapts:
                runner.neighbours = len(self._hosted) - 1
        if time.monotonic() < self._shared_at:
            return
        self._shared_at = math.inf
        for mode in self._hosted:
            runner = self._runners.get(mode)
            if runner is not None and 2 * (runner.neighbours + 1) <= len(self._hosted):
                self._end(runner)  # and beats meanwhile, as the others do
                self._capture.forget(mode)
                self._start(mode)

    def _look_after(self, mode: str, runner: Runner) -> None:
        """Drop the mode if it failed, by a defect as well, or is no longer desired."""
        try:
            failure = self._failure_of(mode, runner)
            is_over = failure is not None or not self._is_desired(mode)
        except Exception as error:
            traceback.print_exception(error)
            failure, is_over = error, True
        if failure is not None and not is_alive(self._spark, JVM_ENDS_SECONDS):
            return  # it is the first to see what ends all of them
        if is_over:
            self._drop(mode, failure)

    def _failure_of(self, mode: str, runner: Runner) -> BaseException | None:
        if (failure := runner.failure()) is not None:
            return self._capture.cause_of(mode, failure)
        return self._capture.failure(mode) or self._defects.get(mode)

    def _beat_when_due(self) -> None:
        if time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        self._clock.read()
        beats = [
            self._say(mode, DriverState.RUNNING, runner, clock=self._clock)
            for mode, runner in self._runners.items()
        ]
        self._metrics.write_when_due(beats)

    def _say(
        self,
        mode: str,
        state: DriverState,
        runner: Runner | None,
        failure: BaseException | None = None,
        clock: DatabaseClock | None = None,
    ) -> Heartbeat:
        """Beat; a runner that cannot be asked is a defect of its mode, and beats without figures.

        One that runs although its desired state cannot be read has that as its error.
        """
        if state is DriverState.RUNNING:
            failure = self._unreadable.get(mode)
        try:
            return self._beats.say(mode, state, runner, clock, failure)
        except Exception as error:
            traceback.print_exception(error)
            self._defects[mode] = error
            return self._beats.say(mode, state, failure=failure)

    def _is_desired(self, mode: str) -> bool:
        return self._desired(mode) is not DesiredState.STOPPED

    def _desired(self, mode: str) -> DesiredState | None:
        """What the mode's file says, None when there is none; RUNNING when it cannot be read."""
        try:
            desired = read_desired(self._settings, mode)
        except (LockstepError, OSError) as error:
            if str(error) != str(self._unreadable.get(mode)):
                log.warning("%s counts as desired: %s", mode, error)
            self._unreadable[mode] = error
            return DesiredState.RUNNING
        self._unreadable.pop(mode, None)
        return None if desired is None else desired.state

    def _host_history(self) -> None:
        """Write the source's history from now on, unless another driver does."""
        if HISTORY in self._leases or not self._history.is_due:
            return
        try:
            held_by_another = lease.holder(self._settings, HISTORY) is not None
            if held_by_another or not self._is_desired(HISTORY):
                return
            self._leases[HISTORY] = lease.acquire(self._settings, HISTORY)
        except StreamBusyError:
            return
        except (LockstepError, OSError) as error:  # of its files, not of the other modes
            log.warning("the history cannot be hosted: %s", error)
            self._history.pause()
            return
        with suppress(LockstepError):  # then by the folders as they were
            self._modes[HISTORY] = self._history_modes(HISTORY)
        self._start(HISTORY)

    def _renew_history(self, mode: str) -> None:
        """Write the history by the folders as they are now, if a new stream reads more of it.

        What it left out and the stream reads is tried again: the column may be as it was.
        """
        self._history.read_again(self._modes[mode].plan.tables.values())
        modes = self._history_modes(mode)
        if modes.kept == self._modes[HISTORY].kept or HISTORY not in self._runners:
            return
        self._end(self._runners.pop(HISTORY))
        self._capture.forget(HISTORY)
        self._streams[HISTORY] = self._streams[mode][0], HISTORY
        self._modes[HISTORY] = modes
        self._start(HISTORY)

    def _history_modes(self, stream: str) -> Modes:
        """What the history of the stream's source goes by. Raises LockstepError."""
        return Modes.of(self._streams[stream][0], self._history.unread, self._versions)

    def _drop(self, mode: str, failure: BaseException | None = None) -> None:
        """End one mode, say how it ended, and give its lease back."""
        runner = self._runners.pop(mode, None)
        self._capture.forget(mode)
        if runner is not None:
            # A failure is reported at once: a micro-batch that waits for Kafka takes a minute to
            # end.
            ending = DriverState.STOPPING if failure is None else DriverState.FAILED
            self._say(mode, ending, runner, failure)
            unended = self._end(runner)
            failure = failure or unended
        if failure is not None:
            self._note_failure(mode, failure)
        state = DriverState.STOPPED if failure is None else DriverState.FAILED
        self._say(mode, state, runner, failure)
        self._defects.pop(mode, None)
        self._unreadable.pop(mode, None)
        if mode in self._modes:
            self._versions.leave(self._modes[mode].table_of(self._streams[mode][1]))
        held = self._leases.pop(mode, None)
        if held is not None:
            held.release()

    def _drop_all(self, failure: BaseException | None = None) -> None:
        for mode in list(self._leases):
            self._drop(mode, failure)

    def _note_failure(self, mode: str, failure: BaseException) -> None:
        log.error("%s has ended: %s", mode, failure)
        if mode == HISTORY:
            self._history.note_failure(failure, self._modes[HISTORY])
        else:
            self.failures[mode] = failure

    def _end(self, runner: Runner) -> BaseException | None:
        """After its write, which may take minutes: the other modes go on, and say so.

        Returns why its query did not end as it should. The runner writes nothing from then on all
        the same.
        """
        with ThreadPoolExecutor(1) as pool:
            ended = self._beating_until(pool.submit(runner.stop))
        if (error := ended.exception()) is not None:
            traceback.print_exception(error)
        return error

    def _beating_until(self, done: Future) -> Future:
        """Let the other modes' heartbeats go on until it is done; returns it."""
        while not wait([done], BEAT_SECONDS).done:
            self._beat_when_due()
        return done
