"""The publisher: one process that keeps the published table up to date with whatever feeds it.

It is kept running as a stream is, by desired state, lease and heartbeat. It has no state of its
own: each step begins with what the published table says of itself, so that a kill loses nothing
and a switch of the feed needs no word to it. The pipeline's folder is read once, at the start.
"""

import logging
import os
import signal
import threading
import time
from datetime import UTC, datetime

from lockstep.errors import LockstepError, WriterBusyError
from lockstep.model.modes import BATCH, PUBLISHER
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.publish.step import Step, step
from lockstep.publish.switch import settle
from lockstep.publish.table import fed_of, open_or_create, open_published
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sinks.maintenance import Maintenance
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, read_desired
from lockstep.supervise.heartbeat import DriverState, Heartbeat, HeartbeatError, write_heartbeat

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
BEAT_SECONDS = 1.0
STEP_SECONDS_MAX = 1800.0
"""The first step publishes the whole hourly table. One that takes longer does not beat any more."""


class Publisher:
    """Publishes until it is asked to stop; `run` gives the exit code."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started_at = datetime.now(UTC)
        self._asked_to_stop = threading.Event()
        self._beat_failure: Exception | None = None
        self._done: Step | None = None
        self._settled: int | None = None
        self._step_seconds: float | None = None
        self._up_to_date_at = self._turned_at = time.monotonic()

    def run(self) -> int:
        """Returns 0 when it was stopped on purpose, 2 when it failed; the heartbeat says why.

        Raises StreamBusyError when another process publishes.
        """
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: self._asked_to_stop.set())
        with lease.acquire(self._settings, PUBLISHER):
            beating = threading.Thread(target=self._beat, daemon=True)
            try:
                beating.start()
                self._publish()
                if self._beat_failure is not None:
                    raise self._beat_failure
            except Exception as error:
                self._end(beating, DriverState.FAILED, error)
                if not isinstance(error, LockstepError):
                    raise  # a defect: the log shows where
                return 2
            self._end(beating, DriverState.STOPPED)
        return 0

    def _publish(self) -> None:
        plan = plan_named(self._settings.project, self._settings.names.pipeline)
        maintenance = self._maintenance_of_now()
        while not self._asked_to_stop.is_set() and self._is_desired():
            began = self._turned_at = time.monotonic()
            try:
                done = self._done = step(self._settings, plan)
                if done.has_published:
                    self._step_seconds = time.monotonic() - began
                if done.switched_in != self._settled or maintenance.is_due(done.version):
                    self._maintain(plan, maintenance)
            except WriterBusyError:  # a switch is under way
                self._asked_to_stop.wait(POLL_SECONDS)
                continue
            if done.is_all:
                self._up_to_date_at = began
                self._asked_to_stop.wait(POLL_SECONDS)

    def _maintenance_of_now(self) -> Maintenance:
        table = open_published(self._settings)
        return Maintenance(0 if table is None else table.version())

    def _maintain(self, plan: Plan, maintenance: Maintenance) -> None:
        """See that the last switch is in the ledger; when it is time, tidy the table up."""
        with sole_writer(self._settings, self._settings.names.published_table):
            table = open_or_create(self._settings, plan.result)
            settle(self._settings, table)
            self._settled = fed_of(table).switched_in
            maintenance.look_after(table, self._settings.stream_versions_kept_hours)

    def _is_desired(self) -> bool:
        desired = read_desired(self._settings, PUBLISHER)
        return desired is None or desired.state is DesiredState.RUNNING

    def _beat(self) -> None:
        """Until the end, unless a step hangs. A defect here ends the publisher."""
        try:
            while not self._asked_to_stop.is_set():
                if time.monotonic() - self._turned_at < STEP_SECONDS_MAX:
                    self._say(DriverState.RUNNING)
                self._asked_to_stop.wait(BEAT_SECONDS)
        except Exception as error:  # raised again by run(), in the main thread
            self._beat_failure = error
            self._asked_to_stop.set()

    def _end(
        self, beating: threading.Thread, state: DriverState, failure: Exception | None = None
    ) -> None:
        self._asked_to_stop.set()
        beating.join()
        self._say(state, failure)

    def _say(self, state: DriverState, failure: Exception | None = None) -> None:
        """Lag is the time since the last look at the feed after which the table had all of it."""
        is_fed_by_stream = self._done is not None and self._done.feed != BATCH
        beat = Heartbeat(
            mode=PUBLISHER,
            pid=os.getpid(),
            driver_started_at=self._started_at,
            beat_at=datetime.now(UTC),
            state=state,
            error=failure and HeartbeatError.of(failure),
            frontier=self._done.reached if is_fed_by_stream else None,
            lag_seconds=time.monotonic() - self._up_to_date_at,
            micro_batch_seconds=self._step_seconds,
        )
        try:
            write_heartbeat(self._settings, beat)
        except OSError as problem:  # a full disk: supervision misses the beats by itself
            log.warning("the publisher's heartbeat cannot be written: %s", problem)
