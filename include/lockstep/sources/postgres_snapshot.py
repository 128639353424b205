"""Reads a pipeline's tables by JDBC, every partition of every table under one exported snapshot.

How the connections come to see the snapshot is in snapshot_jdbc.py.
"""

from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project_files import PIPELINES
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.column_reads import ColumnRead, inside
from lockstep.sources.slot_counts import count_slots
from lockstep.sources.snapshot_jdbc import SnapshotJdbc, between
from lockstep.sources.source_database import reader
from lockstep.sources.window_slices import SlotCount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READS = "batch_reads"
"""Of a pipeline's folder: what its hourly run asks PostgreSQL for, where not generated."""
VIEW_READ = "view"
_BOUND = "{start}"


def has_reads(settings: Settings) -> bool:
    """Whether the pipeline that is worked for has reads of its own in its folder."""
    return (settings.project / PIPELINES / settings.names.pipeline / _READS).is_dir()


def count_facts(exported: ExportedSnapshot, plan: Plan, window: Window) -> list[SlotCount]:
    """The fact's rows in each filled slot of the window, in time order, as the snapshot sees them.

    As many rows has the window's result, too: each fact makes one, and the result's time is a copy
    of the fact's (Plan.fact_time).
    """
    fact = plan.fact
    time = ColumnRead(plan.fact_time, fact.types[plan.fact_time])
    relation = sql.Identifier(fact.name.schema, fact.name.name)
    return count_slots(exported.connection, window, relation, time.instant, inside(time, window))


class SnapshotReader:
    """DataFrames over PostgreSQL that all see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read.
    """

    def __init__(
        self, spark: "SparkSession", settings: Settings, exported: ExportedSnapshot, plan: Plan
    ) -> None:
        target = reader(settings)
        self._plan = plan
        self._jdbc = SnapshotJdbc(spark, target, exported, options={})

    def view(self, slices: list[Window]) -> "DataFrame":
        """The result's columns, arrays as JSON text, and those of the origin; a slice a task."""
        return self._read(VIEW_READ, slices, self._plan.time)

    def tables(self, window: Window, slices: list[Window]) -> dict[TableName, "DataFrame"]:
        """The query's tables: the window's facts, a slice a task, and what they refer to."""
        plan = self._plan
        return {
            name: self._read(name.name, slices if table is plan.fact else [window], plan.fact_time)
            for name, table in plan.tables.items()
        }

    def _read(self, read: str, slices: list[Window], time: str) -> "DataFrame":
        query = rendered(self._plan, read, Window(slices[0].start, slices[-1].end))
        predicates = [between(time, part) for part in slices] if len(slices) > 1 else ["true"]
        return self._jdbc.read(query, f"{read}_read", predicates)


def small_tables(plan: Plan) -> set[TableName]:
    """Those that a run reads whole, whatever its window: their reads have no bounds."""
    return {name for name in plan.tables if _BOUND not in _text(plan, name.name)}


def rendered(plan: Plan, read: str, window: Window) -> sql.Composed:
    """A query of the pipeline's batch_reads about the window."""
    start, end = sql.Literal(window.start), sql.Literal(window.end)
    return sql.SQL(_text(plan, read)).format(start=start, end=end)


def _text(plan: Plan, read: str) -> str:
    return read_project_file(PIPELINES / plan.name / _READS / f"{read}.sql")
