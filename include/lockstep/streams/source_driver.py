"""The driver of a source's streams: one process, modes of its pipelines, its history with them.

The history has a lease of its own: whichever driver of the source comes first writes it, and
another takes over when that one ends. SIGTERM stops all after the micro-batch under way. What
changes are of is looked at again every few seconds: a slot or topic that is gone, or another one,
ends the streams with an error that names it. A stream that fails ends alone; the history's writer
takes all along, since the others wait for it.
"""

import logging
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.errors import LockstepError
from lockstep.model.modes import HISTORY
from lockstep.pipeline import names
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Project, Source
from lockstep.settings import Settings
from lockstep.spark import stream_session
from lockstep.streams.heartbeats import Beats
from lockstep.streams.modes import Modes, stage_of
from lockstep.streams.runner import Runner
from lockstep.streams.source_identity import SourceIdentity
from lockstep.supervise import lease
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from lockstep.supervise.heartbeat import DriverState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BEAT_SECONDS = 1.0
LOOK_SECONDS = 5.0


class SourceDriver:
    """Hosts streams of a source's pipelines until they are stopped or have all failed."""

    def __init__(
        self,
        settings: Settings,
        project: Project,
        source: Source,
        streams: Iterable[tuple[Plan, Mode]],
    ) -> None:
        """project: whose pipelines of the source say what the history keeps.

        streams: one or more, each a mode of a pipeline of the source.
        """
        self._settings = settings
        self._streams = {
            names.address(plan.name, mode): (Modes.of_plan(settings, project, plan), mode)
            for plan, mode in streams
        }
        self._history = names.history_address(source.name)
        self._capture = SourceIdentity(settings, source)
        self._asked_to_stop = threading.Event()
        self._leases: dict[str, lease.Lease] = {}
        self._runners: dict[str, Runner] = {}
        self._failures: list[BaseException] = []
        self._beats = Beats(settings)

    def run(self) -> None:
        """Returns when the streams were stopped on purpose.

        Raises StreamBusyError when another process runs one of them, before anything starts; what
        ended all; or what ended the first of those that failed, after the others have ended.
        """
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: self._asked_to_stop.set())
        failure: BaseException | None = None
        try:
            for name in self._streams:
                self._leases[name] = lease.acquire(self._settings, name)
            self._take_history()
            for name in self._streams:
                self._beats.say(name, DriverState.STARTING)
            self._capture.require(map(self._settings.table_uri, self._tables()))
            spark = self._session()
            self._start_history(spark)
            for name, (modes, mode) in self._streams.items():
                try:
                    self._start(spark, name, modes, mode)
                except LockstepError as error:
                    self._drop(name, error)
            self._watch(spark)
            if self._failures:
                raise self._failures[0]
        except BaseException as error:
            failure = error
            raise
        finally:
            self._end(failure)

    def _tables(self) -> Iterator[str]:
        """The paths of all that is written here."""
        for modes, mode in self._streams.values():
            yield from (modes.table_of(mode), modes.table_of(HISTORY))

    def _session(self) -> "SparkSession":
        held = [taken.fileno() for taken in self._leases.values()]
        return stream_session(self._settings, f"lockstep {' '.join(self._streams)}", held)

    def _take_history(self) -> bool:
        """Whether this driver is, from now on, the one that writes the history."""
        if self._history in self._leases:
            return False
        try:
            self._leases[self._history] = lease.acquire(self._settings, self._history)
        except StreamBusyError:
            return False
        return True

    def _start_history(self, spark: "SparkSession") -> None:
        if self._history in self._leases:
            any_modes, _ = next(iter(self._streams.values()))
            self._start(spark, self._history, any_modes, HISTORY)

    def _start(self, spark: "SparkSession", name: str, modes: Modes, mode: str) -> None:
        runner = Runner(
            self._settings,
            name,
            modes.sink_of(spark, mode, self._capture.capture_id),
            xid_near=self._capture.current_xid(),
            given_up=modes.given_up(mode),
            stage=stage_of(mode),
        )
        location = checkpoint_location(self._settings, name, self._capture.capture_id)
        runner.start(spark, location, neighbours=len(self._streams) - 1)
        self._runners[name] = runner

    def _watch(self, spark: "SparkSession") -> None:
        beaten = looked = 0.0
        while self._runners.keys() & self._streams and not self._asked_to_stop.wait(POLL_SECONDS):
            for name, runner in list(self._runners.items()):
                if (failure := runner.failure()) is not None:
                    self._capture.look()
                    if name == self._history:
                        raise failure
                    self._drop(name, failure)
            if self._take_history():
                self._start_history(spark)
            if time.monotonic() - looked >= LOOK_SECONDS:
                self._capture.look()
                looked = time.monotonic()
            if time.monotonic() - beaten >= BEAT_SECONDS:
                self._beat(DriverState.RUNNING)
                beaten = time.monotonic()

    def _drop(self, name: str, failure: BaseException) -> None:
        """End one stream, report why, and give its lease back; the others go on."""
        log.error("%s has ended: %s", name, failure)
        self._failures.append(failure)
        runner = self._runners.pop(name, None)
        if runner is not None:
            self._stop(runner)
        self._beats.say(name, DriverState.FAILED, runner, failure=failure)
        self._leases.pop(name).release()

    def _beat(self, state: DriverState, failure: BaseException | None = None) -> None:
        for name, runner in self._runners.items():
            self._beats.say(name, state, runner, failure=failure)

    def _end(self, failure: BaseException | None) -> None:
        """Stop what runs, report how it ended, and free the leases."""
        for runner in self._runners.values():
            self._stop(runner)
        is_own = failure is not None and failure not in self._failures
        self._beat(
            DriverState.FAILED if is_own else DriverState.STOPPED, failure if is_own else None
        )
        for held in self._leases.values():
            held.release()

    def _stop(self, runner: Runner) -> None:
        try:
            runner.stop()
        except Exception as error:
            traceback.print_exception(error)


def checkpoint_location(settings: Settings, name: str, capture_id: int) -> Path:
    """The folder of Spark's bookkeeping of a query over one capture; those of others are removed.

    Offsets of another capture's topic mean nothing in this one.
    """
    location = mode_folder(settings, name) / f"checkpoint-{capture_id}"
    for other in location.parent.glob("checkpoint-*"):
        if other != location:
            shutil.rmtree(other)
    return location
