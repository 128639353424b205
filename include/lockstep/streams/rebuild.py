"""Rebuilds a stream's table from the change topic: `lockstep stream rebuild MODE`.

1. see that capture is whole: the slot, and the topic from the connector's snapshot on;
2. run the mode by its folder as it is now from the topic's first record on into a lakehouse of its
   own, .rebuild/<mode>, until it has passed the topic's end; the stream may run on meanwhile;
3. stop the stream, hold its lease until the end, and take what came since;
4. forget identity.json, switch the table's content in one commit, and remember the identity.

Until the commit of step 4 the old table is what readers see, and nothing of it was touched. A crash
in step 4 leaves no identity, so that the stream refuses to start; rebuilding again repairs whatever
a crash left, for every rebuild begins from nothing. Before a mode that reads the source's history
that gets what it lacks of the mode's tables; one that is gone, or of another capture, is rebuilt in
the same way.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lockstep.errors import LockstepError, StreamError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.errors import PipelineError
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of, reached_of
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.sinks.table_of_before import require_moved
from lockstep.sinks.table_switch import switch_content
from lockstep.sources import change_topic
from lockstep.sources.capture import current_xid
from lockstep.sources.delta import open_table
from lockstep.spark import stream_session
from lockstep.streams import identity
from lockstep.streams.identity import Capture
from lockstep.streams.modes import JOINED, Modes
from lockstep.streams.runner import Runner
from lockstep.streams.runners import RunnerMaker, checkpoint_location
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import DesiredState, write_desired
from lockstep.supervise.errors import StreamBusyError, StreamFailedError
from lockstep.supervise.folder import mode_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.5
STILL_SECONDS_MAX = 300.0
"""Without a record read for this long, the rebuild is given up: a snapshot that does not end."""
HISTORY_SECONDS_MAX = 120.0
"""For another driver to let go of the dimensions' history, after its write."""
REASON = "is rebuilt by `lockstep stream rebuild`"

OnProgress = Callable[[int, int], None]
"""Called now and then with the offset reached, and the topic's end."""


@dataclass(frozen=True)
class Rebuilt:
    """The new table's rows and frontier; that is None where nothing was reached yet."""

    mode: str
    rows: int
    frontier: int | None


def rebuild(
    settings: Settings,
    mode: StreamMode,
    on_progress: OnProgress = lambda *_: None,
    reason: str = REASON,
) -> Rebuilt:
    """Replace the mode's table by a new, complete one; the mode is stopped and stays so.

    reason: of its being stopped, for people. Raises CaptureLostError when the topic does not hold
    everything, StreamBusyError when another process starts the mode meanwhile, StreamFailedError
    when the new table does not come to its end, LakehouseError while an earlier version's table is
    not moved. Then the old table is as it was.
    """
    require_moved(local_folder(settings.lakehouse_uri), settings.names.change_log(mode))
    with _sole_rebuild(settings, mode) as lock:
        capture = _sound_capture(settings, mode)
        spark = stream_session(settings, f"lockstep rebuild {mode}", [lock.fileno()])
        try:
            if mode in JOINED:
                _bring_history(spark, settings, capture, on_progress)
            return _rebuild_one(spark, settings, mode, capture, on_progress, reason)
        finally:
            spark.stop()


def begin_where_it_ended(settings: Settings, mode: StreamMode, reason: str = REASON) -> Rebuilt:
    """Replace the mode's table by an empty one that goes on where it has ended, by its folder.

    For what was published by another query: no replay gives it other columns. The mode is stopped
    and stays so. Raises as `rebuild`, and StreamError for a table of another capture.
    """
    with _sole_rebuild(settings, mode):
        capture = _sound_capture(settings, mode)
        _remove(settings, mode)
        with _held(settings, mode, reason):
            old = open_table(settings.table_uri(settings.names.change_log(mode)))
            if capture_id_of(old) not in (None, capture.capture_id):
                raise StreamError(
                    f"{old.table_uri} is of another capture: {settings.command('stream rebuild')} "
                    f"{mode}"
                )
            reached = reached_of(old)
            log = Modes.of(settings).change_log(_staging(settings, mode), mode, capture.capture_id)
            if reached.frontier is not None:
                log.append(log.schema.empty_table(), reached.frontier, reached.resume_offset)
            rows = _switch(settings, _staging(settings, mode), mode, capture)
        _remove(settings, mode)
    return Rebuilt(mode, rows, reached.frontier)


def _sound_capture(settings: Settings, query: str) -> Capture:
    """What there is now. Raises CaptureLostError unless a complete table can come of it."""
    capture = identity.read_capture(settings)
    identity.require_capture(settings, capture)
    identity.require_members(settings, query, capture)
    return capture


def _sole_rebuild(settings: Settings, mode: str) -> FileLock:
    folder = make_private_folder(mode_folder(settings, mode))
    return FileLock.acquire(
        folder / "rebuild.lock",
        lambda pid: StreamError(f"{mode} is being rebuilt by another process ({pid or 'unknown'})"),
    )


def _bring_history(
    spark: "SparkSession", settings: Settings, capture: Capture, on_progress: OnProgress
) -> None:
    """Have the source's history keep what the mode reads, of this capture."""
    if not _has_history(settings, capture):
        _rebuild_one(spark, settings, HISTORY, capture, on_progress)
        return
    modes = Modes.of(settings)
    try:
        modes.require_history()
    except PipelineError:
        with _held(settings, HISTORY):
            modes.sink_of(spark, HISTORY, capture.capture_id)


def _has_history(settings: Settings, capture: Capture) -> bool:
    """Whether there is a history that its writer can go on with."""
    uri = settings.table_uri(settings.names.history)
    if not DeltaTable.is_deltatable(uri):
        return False
    try:
        remembered = identity.read_remembered(settings, HISTORY)
        identity.require_whole(settings, HISTORY, remembered)
        if remembered is not None:
            identity.compare(settings, HISTORY, remembered, capture)
    except StreamError:
        return False
    return remembered is not None


def _rebuild_one(
    spark: "SparkSession",
    settings: Settings,
    query: str,
    capture: Capture,
    on_progress: OnProgress,
    reason: str = REASON,
) -> Rebuilt:
    _remove(settings, query)
    staging = _staging(settings, query)
    filling = _fill(spark, settings, staging, query, capture, on_progress)
    try:
        with _held(settings, query, reason):
            frontier = filling.finish()
            _require_same(settings, query, capture)
            rows = _switch(settings, staging, query, capture)
    finally:
        filling.stop()
    _remove(settings, query)
    return Rebuilt(query, rows, frontier)


@contextmanager
def _held(settings: Settings, query: str, reason: str = REASON) -> Iterator[None]:
    """Stop the mode, or have the history's writer let go, and hold the lease for the block."""
    if query == HISTORY:
        held = _history_lease(settings)
    else:
        launcher.stop(settings, [query], reason)
        held = lease.acquire(settings, query)
    with held:
        yield


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


def require_local(settings: Settings) -> None:
    """Raise StreamError for a lakehouse in which no table can be rebuilt."""
    if "://" in settings.lakehouse:
        raise StreamError(
            f"the lakehouse {settings.lakehouse} is no local folder, and only there a table can be "
            "rebuilt next to the old one"
        )


def _staging(settings: Settings, mode: str) -> Settings:
    """The same settings with a lakehouse next to the tables, on the same disk."""
    require_local(settings)
    folder = Path(settings.lakehouse_uri) / ".rebuild" / mode
    return settings.model_copy(update={"lakehouse": str(folder)})


def _new_checkpoint(settings: Settings, mode: str) -> Path:
    """Not the stream's, which may run."""
    return checkpoint_location(settings, mode).with_name("checkpoint.rebuild")


def _remove(settings: Settings, mode: str) -> None:
    """Delete what a rebuild left behind."""
    for folder in (Path(_staging(settings, mode).lakehouse), _new_checkpoint(settings, mode)):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # not there, or another mode's is in it
        Path(_staging(settings, mode).lakehouse).parent.rmdir()


@dataclass(frozen=True)
class _Filling:
    """A runner that writes the new table, and goes on until it is stopped."""

    settings: Settings
    runner: Runner
    on_progress: OnProgress

    def catch_up(self) -> None:
        """Until the new table holds all that the topic does now."""
        _wait_until_filled(self.runner, change_topic.end_offset(self.settings), self.on_progress)

    def finish(self) -> int:
        """Catch up with a stream that has stopped, and end; returns the frontier."""
        self.catch_up()
        self.stop()
        return self.runner.reached.frontier

    def stop(self) -> None:
        self.runner.stop()


def _fill(
    spark: "SparkSession",
    settings: Settings,
    staging: Settings,
    mode: str,
    capture: Capture,
    on_progress: OnProgress,
) -> _Filling:
    """Run the query until its new table holds all that the topic did when this began."""
    parts = Modes.of(settings)
    sink = parts.sink_of(spark, mode, capture.capture_id, staging)
    parts.begin(mode, sink)
    maker = RunnerMaker.of(settings, spark, parts, current_xid(settings))
    runner = maker.runner(parts, mode, sink, _new_checkpoint(settings, mode), mode)
    runner.start()
    filling = _Filling(settings, runner, on_progress)
    try:
        filling.catch_up()
    except BaseException:
        filling.stop()
        raise
    return filling


def _wait_until_filled(runner: Runner, end: int, on_progress: OnProgress) -> None:
    """Past the end that the topic had, with a committed frontier behind the last transaction."""
    seen, moved = -1, time.monotonic()
    frontier: int | None = None
    while True:
        if (failure := runner.failure()) is not None:
            if isinstance(failure, LockstepError):
                raise failure
            raise StreamFailedError(runner.name, f"cannot be rebuilt: {failure}")
        offset, read_to, _ = runner.position
        if offset != seen:
            seen, moved = offset, time.monotonic()
            on_progress(offset, end)
        if offset >= end and frontier is None:
            frontier = read_to
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


def _require_same(settings: Settings, query: str, begun: Capture) -> None:
    """Raise StreamError when database, slot or topic were replaced while the table was made, or the
    publication changed."""
    now = _sound_capture(settings, query)
    if (now.topic_id, now.facts.database_system) != (begun.topic_id, begun.facts.database_system):
        raise StreamError("change capture was begun from scratch meanwhile: rebuild again")


def _switch(settings: Settings, staging: Settings, query: str, capture: Capture) -> int:
    """Step 4; returns the rows of the table."""
    identity.identity_path(settings, query).unlink(missing_ok=True)
    table = identity.table_of(settings.names, query)
    rows = switch_content(settings.table_uri(table), staging.table_uri(table))
    identity.begin(settings, query, capture)
    return rows
