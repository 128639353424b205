"""Keeps a table that is committed to for months as quick to write and to read as a fresh one.

Every few commits its log gets a checkpoint, now and then its small files become one, and files that
no kept version needs are removed.
"""

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from lockstep.delta_tables import open_delta
from lockstep.faults import Point, reach
from lockstep.sinks.delta_commits import NO_HOOKS, WRITER, translate_delta_errors

log = logging.getLogger(__name__)

CHECKPOINT_COMMITS = 20
"""Commits between two checkpoints of a table that delta-rs commits to: it looks through all entries
of the log since the last one, so that without any it takes twice the processor
(docs/decisions/streams.md). Others have one with each compaction."""
MAINTAIN_COMMITS = 100
"""Commits between two compactions."""
JOINED_BYTES, COMPACTED_BYTES = 1024**2, 32 * 1024**2
"""Files of this size are not rewritten by a later compaction: by most, and by every
VACUUM_MAINTENANCES-th, so that the rows of a busy day are not rewritten every few seconds."""
VACUUM_MAINTENANCES = 20
"""Compactions between two of large files and removals of files that no kept version needs."""
VACUUM_SECONDS = 600.0
"""Such a removal lists the whole folder: one process makes no more of them."""
VACUUM_RETRIES = 1_000
"""A removal makes two commits of its own, while the writer may make 30 a second."""
VERSION_DIGITS = 20
"""The beginning of the name of each entry of a log."""

Compact = Callable[[DeltaTable, int], bool]
"""Makes one file of several that are smaller than so many bytes. Returns False, and leaves the
table as it is, when it lost to the commits of others."""


def compact_by_delta_rs(table: DeltaTable, target_bytes: int) -> bool:
    """A Compact that loses when a writer was quicker many times in a row."""
    try:
        table.optimize.compact(
            target_size=target_bytes,
            writer_properties=WRITER,
            post_commithook_properties=NO_HOOKS,
        )
    except CommitFailedError:
        return False
    return True


def tidy(
    table: DeltaTable,
    vacuum_hours: int | None,
    target_bytes: int = COMPACTED_BYTES,
    compact: Compact = compact_by_delta_rs,
) -> None:
    """Compact small files and shorten the log; no reader sees other rows.

    vacuum_hours: remove files that no version of so many last hours needs; None removes none. All
        files are looked at (full): a checkpoint forgets a removed file after as many hours, so
        that by the log alone those of the last compaction would go, and others stay for ever.
    target_bytes: files of this size stay as they are.
    """
    reach(Point.BEFORE_COMPACTION)
    if not compact(table, target_bytes):
        log.warning("%s is compacted later: it is written all the time", table.table_uri)
    reach(Point.AFTER_COMPACTION)
    table = open_delta(table.table_uri)
    table.create_checkpoint()
    table.cleanup_metadata()
    if vacuum_hours is not None:
        reach(Point.BEFORE_VACUUM)
        table.vacuum(
            vacuum_hours,
            dry_run=False,
            full=True,
            enforce_retention_duration=False,
            commit_properties=CommitProperties(max_commit_retries=VACUUM_RETRIES),
            post_commithook_properties=NO_HOOKS,
        )
        reach(Point.AFTER_VACUUM)


def forget_versions(folder: Path, newest: int) -> None:
    """Remove the entries of a local table's log that its `newest` versions do not need.

    Those are what lies before the last checkpoint that is older than they are
    (https://github.com/delta-io/delta/blob/master/PROTOCOL.md: log cleanup). The oldest go first,
    so that a reader never finds a gap.
    """
    log = folder / "_delta_log"
    # By their names alone: the log of a busy table has thousands of entries.
    entries = sorted(name for name in os.listdir(log) if name[:VERSION_DIGITS].isdigit())
    versions = [int(name[:VERSION_DIGITS]) for name in entries]
    oldest = max(versions, default=0) - newest + 1
    checkpoints = [
        version
        for version, name in zip(versions, entries, strict=True)
        if name.endswith(".checkpoint.parquet") and version <= oldest
    ]
    first_kept = max(checkpoints, default=0)
    for version, name in zip(versions, entries, strict=True):
        if version < first_kept:
            (log / name).unlink(missing_ok=True)


class Maintenance:
    """When a table is looked after: each time its version passes another so many commits.

    The table's version says so and no count in memory, so that a writer that is often restarted
    does not put it off.
    """

    def __init__(self, version: int, *, is_log_read: bool = True) -> None:
        """version: the table's, at its writer's start. is_log_read: by each of the commits."""
        self._is_log_read = is_log_read
        self._checkpointed = version // CHECKPOINT_COMMITS
        self._maintained = version // MAINTAIN_COMMITS
        self._large = version // (MAINTAIN_COMMITS * VACUUM_MAINTENANCES)
        self._is_vacuum_owed = False
        self._vacuumed_at = -math.inf

    def is_due(self, version: int) -> bool:
        """Whether the table is to be looked after at this version."""
        is_checkpoint_due = (
            self._is_log_read and version // CHECKPOINT_COMMITS != self._checkpointed
        )
        return is_checkpoint_due or self._is_tidy_due(version)

    def look_after(
        self, table: DeltaTable, kept_hours: int, compact: Compact = compact_by_delta_rs
    ) -> bool:
        """Shorten what a commit reads of the log, and tidy the table up if it is time for that.

        Returns whether it was tidied up. Raises LakehouseError. kept_hours: files that a version of
        so many last hours needs stay.
        """
        version = table.version()
        if not self.is_due(version):
            return False
        is_tidy_due = self._is_tidy_due(version)
        self._checkpointed = version // CHECKPOINT_COMMITS
        self._maintained = version // MAINTAIN_COMMITS
        with translate_delta_errors(table.table_uri):
            if is_tidy_due:
                self._tidy(table, kept_hours, compact)
            else:
                table.create_checkpoint()
        return is_tidy_due

    def _is_tidy_due(self, version: int) -> bool:
        return version // MAINTAIN_COMMITS != self._maintained

    def _tidy(self, table: DeltaTable, kept_hours: int, compact: Compact) -> None:
        large = table.version() // (MAINTAIN_COMMITS * VACUUM_MAINTENANCES)
        is_large, self._large = large != self._large, large
        self._is_vacuum_owed = self._is_vacuum_owed or is_large
        waited_seconds = time.monotonic() - self._vacuumed_at
        is_vacuum_due = self._is_vacuum_owed and waited_seconds >= VACUUM_SECONDS
        if is_vacuum_due:
            self._is_vacuum_owed, self._vacuumed_at = False, time.monotonic()
        target_bytes = COMPACTED_BYTES if is_large else JOINED_BYTES
        tidy(table, kept_hours if is_vacuum_due else None, target_bytes, compact)
