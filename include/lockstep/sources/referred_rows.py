"""Which rows of a table the facts of a window lead to, as a condition of PostgreSQL's.

An hour is not to read every client there ever was. The rows are those of the plan's look-ups, which
a stream fetches for its facts, too: over them the query gives what it gives over all rows
(pipeline/query/reach.py).
"""

from collections.abc import Sequence

from psycopg import sql

from lockstep.model.window import Window
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.reach import Reach
from lockstep.sources.column_reads import near

ROWS_READ_WHOLE = 10_000
"""Of a table that PostgreSQL estimates so small, all rows are read: to look for some costs as much.
"""


def referred_rows(plan: Plan, table: TableName, window: Window) -> sql.Composable | None:
    """The condition for the table's rows that the window's facts lead to, and maybe some more.

    None where it is not known: the fact has no column that says which rows are in the window, or a
    look-up goes by a local time, of which two may be one instant.
    """
    if plan.fact_time is None or any(_goes_by_local_time(plan, step) for step in plan.steps):
        return None
    return _found(plan, plan.steps, table, window)


def _goes_by_local_time(plan: Plan, step: Reach) -> bool:
    sides = ((step.table, step.columns), (step.from_table, step.from_columns))
    return any(
        plan.tables[table].types[column].time_zone is not None
        for table, columns in sides
        for column in columns
    )


def _found(plan: Plan, steps: Sequence[Reach], table: TableName, window: Window) -> sql.Composable:
    """Those that these steps find; of the fact also the window's own rows."""
    found = [
        _of_step(step, _found(plan, steps[:place], step.from_table, window))
        for place, step in enumerate(steps)
        if step.table == table
    ]
    if table == plan.fact.name:
        found.append(near(plan.fact_time, plan.fact.types[plan.fact_time], window))
    return sql.SQL("({})").format(sql.SQL(" OR ").join(found)) if found else sql.SQL("false")


def _of_step(step: Reach, leading: sql.Composable) -> sql.Composable:
    """The rows that the step finds from the rows of its other table for which `leading` holds."""
    values = [_column(step.from_table, name) for name in step.from_columns]
    if step.is_element:
        values = [sql.SQL("unnest({})").format(one) for one in values]
    return sql.SQL("({columns}) IN (SELECT {values} FROM {table} WHERE {leading})").format(
        columns=sql.SQL(", ").join(_column(step.table, name) for name in step.columns),
        values=sql.SQL(", ").join(values),
        table=_relation(step.from_table),
        leading=leading,
    )


def _column(table: TableName, name: str) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name, name)


def _relation(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
