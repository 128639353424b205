"""One hourly run of a pipeline, step by step, whatever its tables and columns are.

The order of the steps is the run's guarantee: the lock first (no other run comes between), the
snapshot before the marker (so the marker comes later in the log than all the run sees), and one
commit at the end (so a run killed anywhere has changed nothing).
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.reading import Reading, reading
from lockstep.batch.rows import (
    collected_if_sound,
    hourly_columns,
    in_window,
    require_one_row,
    require_sound,
    with_cut,
    with_origin,
)
from lockstep.cdc.cuts import Cut, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.enrich.plans import evaluated
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import cut_prefix
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Pipeline
from lockstep.settings import Settings
from lockstep.sinks.hourly_table import (
    can_collect,
    open_table,
    partition_of,
    replace_all,
    replace_collected,
    replace_window,
)
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.postgres import connect_to

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class BatchRun:
    """A finished run: what its commit says, and how long it took (without session start)."""

    commit: RunCommit
    seconds: float


def run_pipeline(
    spark: "SparkSession",
    settings: Settings,
    pipeline: Pipeline,
    window: Window | None,
    read_mode: ReadMode = ReadMode.TABLES,
) -> BatchRun:
    """Make the pipeline's result the hourly table's rows of the window.

    window: None for a pipeline without a time, whose table is replaced whole. read_mode: let the
    query make the rows, or the view of PostgreSQL that the manifest names. Running it again
    replaces the same rows. A failure, whatever it is, leaves the table as it was. Raises
    PipelineError, WindowError, ResultRefusedError, SourceValueError, PostgresUnavailableError,
    LakehouseError, WriterBusyError.
    """
    started = time.monotonic()
    hourly_table = settings.of(pipeline.name).names.hourly_table
    # Step 1: be the only writer, with room to write.
    # Step 2: export the snapshot that everything below reads.
    with (
        sole_writer(settings, hourly_table),
        reading(spark, settings, pipeline, window) as read,
    ):
        # Step 3: mark the cut in the database's log.
        with connect_to(read.target) as marking:
            prefix = cut_prefix(pipeline.source.name)
            cut = mark_cut(marking, read.exported, str(uuid.uuid4()), prefix)
        # Step 4: read under the snapshot, and replace the rows in one commit.
        replacement = _Replacement(settings, read, read_mode, cut)
        commit = replacement.of_few() or replacement.of_any()
    return BatchRun(commit, time.monotonic() - started)


class _Replacement:
    """The rows of one run, which are written in one of two ways."""

    def __init__(self, settings: Settings, read: Reading, read_mode: ReadMode, cut: Cut) -> None:
        self._read, self._plan, self._window = read, read.plan, read.window
        self._mode, self._cut = read_mode, cut
        found = read.result(read_mode)
        self._facts = found.count
        self._columns = hourly_columns(self._plan, found.rows.schema)
        self._uri = settings.table_uri(self._plan.hourly_table)
        partition, added = partition_of(self._plan), self._plan.origin_columns
        self._table = open_table(read.session, self._uri, self._columns, partition, added)
        self._result = with_origin(found.rows, self._plan, cut)

    def of_few(self) -> RunCommit | None:
        """Rows of an hour go through this process's memory, which checks them as they are there.

        None where they cannot. What is not sound is left to Spark's check, which says why.
        """
        plan, window, count, table = self._plan, self._window, self._facts, self._table
        if table is None or plan.time is None or window is None or count is None:
            return None
        if not can_collect(table, self._columns, plan.time, window, count):
            return None
        rows = with_cut(self._result, plan, self._columns, self._cut)
        collected = collected_if_sound(rows, plan, window, count, self._read.rewritten)
        if collected is None:
            return self._checked()
        commit = self._commit(collected.num_rows)
        if collected.num_rows:
            replace_collected(table, collected, plan.time, window, commit.as_json())
        else:
            replace_window(rows, self._uri, plan.time, window, commit.as_json())
        return commit

    def of_any(self) -> RunCommit:
        """As many rows as there are, through Spark. Raises ResultRefusedError as require_sound.

        Rows that can be written as they come are neither kept nor counted first, which takes a
        fifth of such a run: docs/decisions/batch.md.
        """
        plan, count = self._plan, self._facts
        most = self._read.most_rows_of_a_key(self._mode)
        if most is not None and count is not None:
            require_one_row(plan, *most)
            return self._write(self._result, self._commit(count))
        return self._checked()

    def _checked(self) -> RunCommit:
        """Whatever is known of the query: its rows are kept, and looked through before a write."""
        plan, window = self._plan, self._window
        with _kept(self._result) as result:
            commit = self._commit(require_sound(plan, result, window, self._read.rewritten))
            return self._write(in_window(result, plan, window), commit)

    def _write(self, result: "DataFrame", commit: RunCommit) -> RunCommit:
        plan, window = self._plan, self._window
        rows = with_cut(result, plan, self._columns, self._cut)
        with evaluated(self._read.rewritten), _refused_by_delta(plan):
            if plan.time is None or window is None:
                replace_all(rows, self._uri, commit.as_json())
            else:
                replace_window(rows, self._uri, plan.time, window, commit.as_json())
        return commit

    def _commit(self, rows: int) -> RunCommit:
        """With the fact's rows as PostgreSQL counted them: what the table is checked against."""
        count = rows if self._facts is None else self._facts
        return RunCommit(self._window, self._mode, count, self._cut, self._plan.version)


@contextmanager
def _kept(rows: "DataFrame") -> Iterator["DataFrame"]:
    """Rows that are checked and then written are computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def _refused_by_delta(plan: Plan) -> Iterator[None]:
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ResultRefusedError(
            f"pipeline {plan.name}: Delta cannot hold the result, and nothing was written: "
            f"{str(error).splitlines()[0]}"
        ) from error
