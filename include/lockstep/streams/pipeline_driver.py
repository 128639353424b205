"""The driver of one pipeline's stream: one process, the stream, and the source's history with it.

The history has a lease of its own: whichever driver of the source comes first writes it, and
another takes over when that one ends. SIGTERM stops both after the micro-batch under way. What
changes are of is looked at again every few seconds: a slot or topic that is gone, or another one,
ends the stream with an error that names it.
"""

import shutil
import signal
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.pipeline import names
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan, captured_tables, plans_of
from lockstep.pipeline.project import Project
from lockstep.settings import Settings
from lockstep.spark import stream_session
from lockstep.streams.as_of_commit import (
    Evaluation,
    TemporalSink,
    catch_up,
    change_log,
    change_log_schema,
)
from lockstep.streams.given_up import GivenUp
from lockstep.streams.heartbeats import Beats
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.runner import Runner
from lockstep.streams.sink import Sink
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.source_identity import SourceIdentity
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import rows_decoder
from lockstep.supervise import lease
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from lockstep.supervise.heartbeat import DriverState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.5
BEAT_SECONDS = 1.0
LOOK_SECONDS = 5.0


class PipelineDriver:
    """Hosts one stream until it is stopped or fails."""

    def __init__(self, settings: Settings, project: Project, plan: Plan, mode: Mode) -> None:
        """project: whose pipelines of the plan's source say what the history keeps."""
        self._settings, self._plan = settings, plan
        source = project.sources[plan.source]
        self._capture = SourceIdentity(settings, source)
        self._captured = captured_tables(plans_of(project, plan.source), source.catalog)
        self._stream = names.address(plan.name, mode)
        self._history = names.history_address(plan.source)
        self._log_uri = settings.table_uri(plan.change_log(mode))
        self._history_uri = settings.table_uri(plan.history)
        self._asked_to_stop = threading.Event()
        self._leases: dict[str, lease.Lease] = {}
        self._runners: dict[str, Runner] = {}
        self._beats = Beats(settings)

    def run(self) -> None:
        """Returns when the stream was stopped on purpose.

        Raises StreamBusyError when another process runs it, and whatever ends it otherwise.
        """
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: self._asked_to_stop.set())
        self._leases[self._stream] = lease.acquire(self._settings, self._stream)
        failure: BaseException | None = None
        try:
            self._take_history()
            self._beats.say(self._stream, DriverState.STARTING)
            self._capture.require([self._log_uri, self._history_uri])
            spark = self._session()
            self._start_history(spark)
            self._start(spark, self._stream, self._temporal_sink(spark))
            self._watch(spark)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._end(failure)

    def _session(self) -> "SparkSession":
        held = [taken.fileno() for taken in self._leases.values()]
        return stream_session(self._settings, f"lockstep {self._stream}", held)

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
            kept_hours = self._settings.stream_versions_kept_hours
            uri, capture_id = self._history_uri, self._capture.capture_id
            log = history_log(uri, self._captured, kept_hours, capture_id)
            self._start(spark, self._history, SourceHistorySink(log, self._captured))

    def _temporal_sink(self, spark: "SparkSession") -> TemporalSink:
        schema = change_log_schema(spark, self._plan)
        capture_id = self._capture.capture_id
        log = change_log(self._settings, self._log_uri, self._plan, schema, capture_id)
        history = StoredHistory(self._history_uri)
        history.require_columns(self._plan.tables.values())
        needed = NeededVersions(self._plan, history, log.reached.frontier)
        sink = TemporalSink(log, self._plan, needed, Evaluation(spark, self._plan))
        catch_up(self._settings, needed, sink.wanted, self._decoded_for(sink))
        return sink

    def _start(self, spark: "SparkSession", name: str, sink: Sink) -> None:
        runner = Runner(
            self._settings,
            name,
            sink,
            xid_near=self._capture.current_xid(),
            given_up=self._decoded_for(sink),
        )
        runner.start(spark, checkpoint_location(self._settings, name, self._capture.capture_id))
        self._runners[name] = runner

    def _decoded_for(self, sink: Sink) -> GivenUp:
        """No record is given up: one that cannot be read ends the stream."""
        if isinstance(sink, SourceHistorySink):
            decoder = rows_decoder(self._plan.change_topic, self._captured, keeps_texts=True)
        else:
            decoder = rows_decoder(self._plan.change_topic, self._plan.tables)
        return GivenUp(tuple, decoder)

    def _watch(self, spark: "SparkSession") -> None:
        beaten = looked = 0.0
        while not self._asked_to_stop.wait(POLL_SECONDS):
            for runner in self._runners.values():
                if (failure := runner.failure()) is not None:
                    self._capture.look()
                    raise failure
            if self._take_history():
                self._start_history(spark)
            if time.monotonic() - looked >= LOOK_SECONDS:
                self._capture.look()
                looked = time.monotonic()
            if time.monotonic() - beaten >= BEAT_SECONDS:
                self._beat(DriverState.RUNNING)
                beaten = time.monotonic()

    def _beat(self, state: DriverState, failure: BaseException | None = None) -> None:
        for name, runner in self._runners.items():
            self._beats.say(name, state, runner, failure=failure)

    def _end(self, failure: BaseException | None) -> None:
        """Stop what runs, report how it ended, and free the leases."""
        for runner in self._runners.values():
            try:
                runner.stop()
            except Exception as error:
                traceback.print_exception(error)
        state = DriverState.STOPPED if failure is None else DriverState.FAILED
        self._beat(state, failure)
        for held in self._leases.values():
            held.release()


def checkpoint_location(settings: Settings, name: str, capture_id: int) -> Path:
    """The folder of Spark's bookkeeping of a query over one capture; those of others are removed.

    Offsets of another capture's topic mean nothing in this one.
    """
    location = mode_folder(settings, name) / f"checkpoint-{capture_id}"
    for other in location.parent.glob("checkpoint-*"):
        if other != location:
            shutil.rmtree(other)
    return location
