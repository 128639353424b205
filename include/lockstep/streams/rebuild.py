"""Rebuilds a stream's table from the change topic: `lockstep stream rebuild MODE`.

1. stop the mode, and hold its lease until the end;
2. see that capture is whole: the slot, and the topic from the connector's snapshot on;
3. run the mode from the topic's first record on into a lakehouse of its own, .rebuild/<mode>,
   until it has passed the topic's end;
4. forget identity.json and the old checkpoint, switch the tables' content, each in one commit, and
   remember the identity. The next start begins a checkpoint at the new table's resume offset: those
   of the rebuild cannot be moved, for Spark's state store keeps absolute paths.

Until the commit of step 4 the old table is what readers see, and nothing of it was touched. A crash
in step 4 leaves no identity, so that the stream refuses to start; rebuilding again repairs whatever
a crash left, for every rebuild begins from nothing. The modes that read the source's history have
that rebuilt before them, in the same way.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.errors import LockstepError, StreamError
from lockstep.host.files import make_private_folder
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.sinks.table_of_before import require_moved
from lockstep.sinks.table_switch import switch_content
from lockstep.sources import change_topic
from lockstep.sources.capture import current_xid
from lockstep.spark import stream_session
from lockstep.streams import identity
from lockstep.streams.identity import Capture
from lockstep.streams.modes import JOINED, Modes, stage_of
from lockstep.streams.runner import Runner
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import DesiredState, write_desired
from lockstep.supervise.errors import StreamBusyError, StreamFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.5
STILL_SECONDS_MAX = 300.0
"""Without a record read for this long, the rebuild is given up: a snapshot that does not end."""
HISTORY_SECONDS_MAX = 120.0
"""For another driver to let go of the dimensions' history, after its micro-batch."""
REASON = "is rebuilt by `lockstep stream rebuild`"

OnProgress = Callable[[int, int], None]
"""Called now and then with the offset reached, and the topic's end."""


@dataclass(frozen=True)
class Rebuilt:
    """The new table's rows and frontier."""

    mode: str
    rows: int
    frontier: int


def rebuild(
    settings: Settings, mode: StreamMode, on_progress: OnProgress = lambda *_: None
) -> Rebuilt:
    """Replace the mode's table by a new, complete one; the mode is stopped and stays so.

    Raises CaptureLostError when the topic does not hold everything, StreamBusyError when another
    process starts the mode meanwhile, StreamFailedError when the new table does not come to its
    end, LakehouseError while an earlier version's table is not moved. Then the old table is as it
    was.
    """
    require_moved(local_folder(settings.lakehouse_uri), settings.names.change_log(mode))
    with _held(settings, mode) as descriptors:
        capture = identity.read_capture(settings)
        identity.require_capture(settings, capture)
        _remove(settings, mode)
        spark = stream_session(settings, f"lockstep rebuild {mode}", descriptors)
        try:
            for query in rebuilt_together(mode):
                rebuilt = _rebuild_one(spark, settings, query, capture, on_progress)
        finally:
            spark.stop()
        _remove(settings, mode)
    return rebuilt


def rebuilt_together(mode: str) -> tuple[str, ...]:
    """The queries whose tables are rebuilt, those that others read first."""
    return (HISTORY, mode) if mode in JOINED else (mode,)


def _rebuild_one(
    spark: "SparkSession", settings: Settings, query: str, capture: Capture, on_progress: OnProgress
) -> Rebuilt:
    staging = _staging(settings, query)
    frontier = _fill(spark, settings, staging, query, capture, on_progress)
    _require_same(settings, capture)
    return Rebuilt(query, _switch(settings, staging, query, capture), frontier)


@contextmanager
def _held(settings: Settings, mode: StreamMode) -> Iterator[list[int]]:
    """Stop the mode and hold the leases; yields their descriptors."""
    launcher.stop(settings, [mode], REASON)
    with ExitStack() as held:
        taken = [held.enter_context(lease.acquire(settings, mode))]
        if HISTORY in rebuilt_together(mode):
            taken.append(held.enter_context(_history_lease(settings)))
        yield [one.fileno() for one in taken]


def _history_lease(settings: Settings) -> lease.Lease:
    """A driver that writes the history stops that while it is not desired."""
    write_desired(settings, HISTORY, DesiredState.STOPPED, REASON)
    deadline = time.monotonic() + HISTORY_SECONDS_MAX
    try:
        while True:
            try:
                return lease.acquire(settings, HISTORY)
            except StreamBusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
    finally:
        write_desired(settings, HISTORY, DesiredState.RUNNING, REASON)


def _staging(settings: Settings, mode: str) -> Settings:
    """The same settings with a lakehouse beside the tables, on the same disk."""
    if "://" in settings.lakehouse:
        raise StreamError(
            f"the lakehouse {settings.lakehouse} is no local folder, and only there a table can be "
            "rebuilt next to the old one"
        )
    folder = Path(settings.lakehouse_uri) / ".rebuild" / mode
    return settings.model_copy(update={"lakehouse": str(folder)})


def _new_checkpoint(settings: Settings, mode: str) -> Path:
    return identity.checkpoint_location(settings, mode).with_name("checkpoint.rebuild")


def _remove(settings: Settings, mode: str) -> None:
    """Delete what a rebuild left behind."""
    for folder in (Path(_staging(settings, mode).lakehouse), _new_checkpoint(settings, mode)):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # not there, or another mode's is in it
        Path(_staging(settings, mode).lakehouse).parent.rmdir()


def _fill(
    spark: "SparkSession",
    settings: Settings,
    staging: Settings,
    mode: str,
    capture: Capture,
    on_progress: OnProgress,
) -> int:
    """Run the query until its new table holds all that the topic does; returns the frontier."""
    end = change_topic.end_offset(settings)
    parts = Modes.of(settings)
    sink = parts.sink_of(spark, mode, capture.capture_id, staging)
    parts.begin(mode, sink, _new_checkpoint(settings, mode))
    runner = Runner(
        settings,
        mode,
        sink,
        xid_near=current_xid(settings),
        given_up=parts.given_up(mode),
        stage=stage_of(mode),
    )
    runner.start(spark, _new_checkpoint(settings, mode))
    try:
        _wait_until_filled(runner, end, on_progress)
    finally:
        runner.stop()
    return runner.reached.frontier


def _wait_until_filled(runner: Runner, end: int, on_progress: OnProgress) -> None:
    """Past the end that the topic had, with a committed frontier behind the last transaction."""
    seen, moved = -1, time.monotonic()
    frontier: int | None = None
    while True:
        if (failure := runner.failure()) is not None:
            if isinstance(failure, LockstepError):
                raise failure
            raise StreamFailedError(runner.name, f"cannot be rebuilt: {failure}")
        if (offset := runner.tracker.next_offset) != seen:
            seen, moved = offset, time.monotonic()
            on_progress(offset, end)
        if offset >= end and frontier is None:
            frontier = runner.tracker.frontier
        reached = runner.reached.frontier
        if frontier is not None and reached is not None and reached >= frontier:
            return
        if time.monotonic() - moved > STILL_SECONDS_MAX:
            raise StreamFailedError(
                runner.name,
                f"read nothing for {STILL_SECONDS_MAX:.0f} s, at offset {offset:,} of {end:,}; "
                "see `lockstep status`. The old table is as it was",
            )
        time.sleep(POLL_SECONDS)


def _require_same(settings: Settings, begun: Capture) -> None:
    """Raise StreamError when database, slot or topic were replaced while the table was made."""
    now = identity.read_capture(settings)
    identity.require_capture(settings, now)
    if (now.topic_id, now.facts.database_system) != (begun.topic_id, begun.facts.database_system):
        raise StreamError("change capture was begun from scratch meanwhile: rebuild again")


def _switch(settings: Settings, staging: Settings, query: str, capture: Capture) -> int:
    """Step 4; returns the rows of the table."""
    identity.identity_path(settings, query).unlink(missing_ok=True)
    shutil.rmtree(identity.checkpoint_location(settings, query), ignore_errors=True)
    table = identity.table_of(settings.names, query)
    rows = switch_content(settings.table_uri(table), staging.table_uri(table))
    make_private_folder(identity.checkpoint_location(settings, query))
    identity.begin(settings, query, capture)
    return rows
