"""An hourly run reads of a large table only the rows that its window's facts lead to."""

from collections.abc import Sequence

import psycopg
import pytest
from lockstep.cdc.cuts import exported_snapshot
from lockstep.model.window import Window
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.settings import Settings
from lockstep.sources import source_tables
from lockstep.sources.postgres import connect_to
from lockstep.sources.referred_rows import referred_rows
from lockstep.sources.source_database import reader
from lockstep.sources.source_tables import SourceReader
from psycopg import sql
from pyspark.sql import SparkSession

from tests.depot.writer import KEYS, PACKED, clerk
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.spark, pytest.mark.services]
PLANS = {name: plan_named(PROJECT_DIR, name) for name in KEYS}
HOUR = Window.parse("2026-03-28T10:00Z", "2026-03-28T12:00Z")
ALWAYS = Window.parse("2020-01-01T00:00Z", "2030-01-01T00:00Z")
NEVER = Window.parse("2019-01-01T00:00Z", "2020-01-01T00:00Z")
CLOCKS_CHANGE = Window.parse("2026-03-28T23:00Z", "2026-03-29T03:00Z")


def rows(
    connection: psycopg.Connection, table: TableName, columns: Sequence[str], where: sql.Composable
) -> set[tuple]:
    """As texts."""
    query = sql.SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c)) for c in columns),
        table=sql.Identifier(table.schema, table.name),
        where=where,
    )
    return set(connection.execute(query))


def followed(
    connection: psycopg.Connection, plan: Plan, facts: sql.Composable
) -> dict[TableName, set[tuple]]:
    """The rows of each table that the plan's look-ups fetch, followed one after the other."""
    found = {name: set() for name in plan.tables}
    found[plan.fact.name] = rows(connection, plan.fact.name, plan.fact.columns, facts)
    for step in plan.steps:
        columns = plan.tables[step.from_table].columns
        places = [columns.index(name) for name in step.from_columns]
        wanted = {tuple(row[place] for place in places) for row in found[step.from_table]}
        columns = plan.tables[step.table].columns
        places = [columns.index(name) for name in step.columns]
        found[step.table] |= {
            row
            for row in rows(connection, step.table, columns, sql.SQL("true"))
            if tuple(row[place] for place in places) in wanted
        }
    return found


@pytest.mark.parametrize("name", KEYS)
def test_the_rows_are_those_to_which_the_facts_lead(depot: Settings, name: str) -> None:
    plan, sizes = PLANS[name], set()
    times = sql.Identifier(plan.fact_time)
    with clerk(depot) as connection:
        connection.execute("RESET ROLE")
        for window in (HOUR, ALWAYS, NEVER, CLOCKS_CHANGE):
            near = sql.SQL("{} BETWEEN {} AND {}").format(
                times,
                sql.Literal(window.start.replace(tzinfo=None)),
                sql.Literal(window.end.replace(tzinfo=None)),
            )
            expected = followed(connection, plan, near)
            for table in plan.tables.values():
                where = referred_rows(plan, table.name, window)
                found = rows(connection, table.name, table.columns, where)
                # Local times are read with half a day around the window.
                assert found >= expected[table.name], (window, table.name)
                sizes.add((str(table.name), len(found)))
    looked_up = {str(table) for table in plan.tables} - {str(plan.fact.name)}
    assert {table for table, size in sizes if size == 0} >= looked_up
    assert {table for table, size in sizes if size > 0} >= looked_up


def test_of_a_large_table_only_these_are_read_and_a_small_one_is_read_whole(
    depot: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, settings = PLANS[PACKED], depot.of(PACKED)
    (lines,) = plan.children
    with clerk(depot) as connection:
        connection.execute("RESET ROLE")
        connection.execute("ANALYZE freight.consignment_lines")
        query = "SELECT count(*) FROM freight.consignment_lines"
        (all_lines,) = connection.execute(query).fetchone()
    target, counts = reader(settings), {}
    with connect_to(target) as connection, exported_snapshot(connection) as exported:
        found = SourceReader(spark, target, exported)
        for limit in (source_tables.ROWS_READ_WHOLE, 0):
            monkeypatch.setattr(source_tables, "ROWS_READ_WHOLE", limit)
            counts[limit] = found.referred(plan, plan.tables[lines], HOUR, facts=1).count()
    assert counts[10_000] == all_lines
    assert 0 < counts[0] < all_lines
