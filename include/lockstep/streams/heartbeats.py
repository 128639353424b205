"""What the driver publishes of its modes: heartbeats, with their distance to database and topic."""

import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from lockstep.errors import LockstepError
from lockstep.observe.memory import resident_bytes
from lockstep.settings import Settings
from lockstep.sources.change_topic import ChangeTopicEnd
from lockstep.sources.kept_connection import answer
from lockstep.sources.source_database import capturer
from lockstep.streams.runner import Runner
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    HeartbeatError,
    IncompleteTransaction,
    write_heartbeat,
)

log = logging.getLogger(__name__)

MEMORY_SECONDS = 10.0
"""Between two looks at the driver's memory: one takes some milliseconds, and beats are frequent."""


class DatabaseClock:
    """How far the database and the topic are; None while one does not answer.

    It is asked every second, and keeps its connections: to open both takes 30 ms of a core.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = ChangeTopicEnd(settings)
        self.lsn: int | None = None
        self.end_offset: int | None = None

    def read(self) -> None:
        """Ask both. Never raises: no mode ends because a distance is unknown."""
        self.lsn = _answer(self._current_lsn)
        self.end_offset = _answer(self._topic.offset)

    def _current_lsn(self) -> int:
        query = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
        return answer(
            capturer(self._settings),
            lambda connection: connection.execute(query).fetchone()[0],
            seconds_max=0,
        )


def _answer(ask: Callable[[], int]) -> int | None:
    """None while the service is away, or answers with a surprise, which the log has."""
    try:
        return ask()
    except LockstepError:
        return None
    except Exception as error:
        log.warning("a position is unknown: %r", error)
        return None


class Beats:
    """Writes the heartbeats of one driver's modes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started_at = datetime.now(UTC)
        self._streams_started_at: dict[str, datetime] = {}
        self._rows: dict[str, tuple[datetime, int]] = {}
        self._memory = 0
        self._memory_read_at = -math.inf

    def starts(self, mode: str) -> None:
        """Say that the mode begins to start; STARTING again, by `say`, that it gets on."""
        self._streams_started_at[mode] = datetime.now(UTC)
        self.say(mode, DriverState.STARTING)

    def say(
        self,
        mode: str,
        state: DriverState,
        runner: Runner | None = None,
        clock: DatabaseClock | None = None,
        failure: BaseException | None = None,
    ) -> Heartbeat:
        """Replace the mode's heartbeat with what is known now; returns it. Any thread may call it.

        A disk that is full is logged, and ends no stream; supervision misses the beats by itself.
        """
        now = datetime.now(UTC)
        known = {} if runner is None else self._of(mode, runner, now)
        if clock is not None:
            known |= self._distance(runner, clock, now, known["incomplete"])
        error = None if failure is None else HeartbeatError.of(failure)
        beat = Heartbeat(
            mode=mode,
            pid=os.getpid(),
            driver_started_at=self._started_at,
            stream_started_at=self._streams_started_at.get(mode),
            beat_at=now,
            state=state,
            error=error,
            **known,
        )
        try:
            write_heartbeat(self._settings, beat)
        except OSError as problem:
            log.warning("%s's heartbeat cannot be written: %s", mode, problem)
        return beat

    def _of(self, mode: str, runner: Runner, now: datetime) -> dict:
        progress, reached, position = runner.progress, runner.reached, runner.position
        return {
            "frontier": reached.frontier,
            "frontier_committed_at": _instant(position.committed_us),
            "next_offset": position.next_offset,
            "last_progress_at": progress.last_progress_at,
            "rows_total": progress.rows_total,
            "rows_per_second": self._rate(mode, progress.rows_total, now),
            "latency": runner.latency.snapshot(now),
            "micro_batch_seconds": progress.write_seconds,
            "state_rows": runner.state_rows,
            "driver_memory_bytes": self._memory_bytes(),
            "incomplete": tuple(
                IncompleteTransaction(
                    tx_id=one.tx_id,
                    age_seconds=_age_seconds(now, one.committed_us),
                    changes_seen=one.changes_seen,
                    changes_expected=one.changes_expected,
                    missing=dict(one.missing),
                )
                for one in runner.incomplete()
            ),
        }

    def _distance(
        self,
        runner: Runner,
        clock: DatabaseClock,
        now: datetime,
        incomplete: Sequence[IncompleteTransaction],
    ) -> dict:
        """Lag in time is nil when every record of the topic has been seen, and none is held back.

        A transaction that has ended, and of which changes are missing, holds back all after it.
        """
        frontier = runner.reached.frontier
        next_offset, _, committed_us = runner.position
        is_held_back = any(one.changes_expected is not None for one in incomplete)
        has_seen_all = clock.end_offset is not None and (
            next_offset >= clock.end_offset - 1  # the last is Kafka's own marker
        )
        caught_up = has_seen_all and not is_held_back
        lag_seconds = 0.0 if caught_up else None
        if not caught_up and committed_us:
            lag_seconds = _age_seconds(now, committed_us)
        known = clock.lsn is not None and frontier is not None
        return {
            "end_offset": clock.end_offset,
            "lag_bytes": max(0, clock.lsn - frontier) if known else None,
            "lag_seconds": lag_seconds,
        }

    def _memory_bytes(self) -> int:
        """The driver's, of MEMORY_SECONDS ago at the most."""
        if time.monotonic() - self._memory_read_at >= MEMORY_SECONDS:
            self._memory = resident_bytes(os.getpid())
            self._memory_read_at = time.monotonic()
        return self._memory

    def _rate(self, mode: str, rows: int, now: datetime) -> float:
        """Rows a second since the beat before."""
        before = self._rows.get(mode)
        self._rows[mode] = (now, rows)
        if before is None or now <= before[0]:
            return 0.0
        return (rows - before[1]) / (now - before[0]).total_seconds()


def _age_seconds(now: datetime, microseconds: int | None) -> float:
    return max(0.0, now.timestamp() - microseconds / 1e6) if microseconds else 0.0


def _instant(microseconds: int | None) -> datetime | None:
    return None if not microseconds else datetime.fromtimestamp(microseconds / 1e6, UTC)
