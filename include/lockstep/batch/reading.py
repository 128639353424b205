"""A pipeline's result of a window, read under one snapshot of the source's database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.preflight import require_window
from lockstep.batch.rows import in_window, with_read_origins
from lockstep.batch.spark_errors import spark_failures
from lockstep.cdc.cuts import ExportedSnapshot, exported_snapshot
from lockstep.enrich.plans import bind, run
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline
from lockstep.pipeline.query.at import Rewritten, at_snapshot
from lockstep.settings import Settings
from lockstep.sources.postgres import RoleConnection, connect_to
from lockstep.sources.slot_counts import CountedRows
from lockstep.sources.source_database import reader_of
from lockstep.sources.source_tables import SourceReader
from lockstep.sources.source_view import ViewReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Reading:
    """The rows of the window, of all without one, under one snapshot of the source's database.

    session: of its own, since the query's tables are views of it.
    """

    session: "SparkSession"
    plan: Plan
    window: Window | None
    slice_rows: int
    target: RoleConnection
    exported: ExportedSnapshot
    rewritten: Rewritten

    def result(self, read_mode: ReadMode) -> CountedRows:
        """The result by the query, or by the view of PostgreSQL that the manifest names.

        Rows: plan.outputs, and of a window what sources/origin.py reads as well; by the query maybe
        rows of other windows, too. Count: of the window's facts, as PostgreSQL has them; None where
        no column says which these are. Raises as batch.run.run_pipeline does.
        """
        tables = SourceReader(self.session, self.target, self.exported)
        if read_mode is ReadMode.VIEW:
            view = ViewReader(self.session, self.target, self.exported)
            rows = view.rows(self.plan, self.window, self.slice_rows)
            window = self.window
            count = None if window is None else tables.count_facts(self.plan, window)
            return CountedRows(rows, count)
        facts = self._bind(tables)
        rows = with_read_origins(run(self.session, self.rewritten), facts, self.plan)
        return CountedRows(rows, facts.count)

    def most_rows_of_a_key(self, read_mode: ReadMode) -> tuple[int, tuple] | None:
        """The most rows of one key of the window's rows, and that key; None where it takes these
        rows to say so.

        Of the query by what its joins and groups show, of the view by PostgreSQL.
        """
        plan, window = self.plan, self.window
        if plan.fact_time is None or window is None:
            return None
        if read_mode is ReadMode.VIEW:
            view = ViewReader(self.session, self.target, self.exported)
            return view.most_rows_of_a_key(plan, window)
        return (1, ()) if plan.query.is_one_row_a_fact else None

    def outputs(self, read_mode: ReadMode) -> "DataFrame":
        """Only plan.outputs, and only rows of the window; otherwise as `result`."""
        rows = self.result(read_mode).rows.select(*map(quoted, self.plan.outputs))
        return in_window(rows, self.plan, self.window)

    def _bind(self, tables: SourceReader) -> CountedRows:
        """Of the fact only the window's rows, where a column of it says which these are, and of the
        other tables what these lead to.

        Returns the fact's rows, with what sources/origin.py reads where they are of a window.
        """
        plan, window = self.plan, self.window
        if plan.fact_time is None or window is None:
            whole = {name: tables.whole(table) for name, table in plan.tables.items()}
            for name, rows in whole.items():
                bind(rows, name)
            return CountedRows(whole[plan.fact.name], None)
        facts = tables.facts(plan, window, self.slice_rows)
        bind(facts.rows.select(*map(quoted, plan.fact.columns)), plan.fact.name)
        for table in plan.tables.values():
            if table is not plan.fact:
                bind(tables.referred(plan, table, window, facts.count), table.name)
        return facts


@contextmanager
def reading(
    spark: "SparkSession", settings: Settings, pipeline: Pipeline, window: Window | None
) -> Iterator[Reading]:
    """Until the block ends the snapshot is held. Raises PipelineError, WindowError,
    PostgresUnavailableError."""
    plan, target = plan_of(pipeline), reader_of(settings, pipeline.source)
    require_window(plan, window)
    with (
        spark_failures(settings, str(target)),
        connect_to(target) as exporting,
        exported_snapshot(exporting) as exported,
    ):
        session, slice_rows = spark.newSession(), settings.batch_slice_rows
        rewritten = at_snapshot(plan.query)
        yield Reading(session, plan, window, slice_rows, target, exported, rewritten)
