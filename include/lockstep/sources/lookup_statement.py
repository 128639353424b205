"""The statement that looks a pipeline's rows up: what the view says, and how new that is.

One statement, so one snapshot. Its rows, in no order:
- of each fact asked for its key, as JSON of a delete; when its row was committed; when the newest
  row of all that the query looks up for it was; whether all that it refers to was there;
- of each fact asked for its row of the view, as JSON;
- the snapshot, and a position of the log at or after the commit of all that this snapshot sees.

A commit's time is null where PostgreSQL no longer keeps it (the row was frozen since): long ago. A
row deleted since leaves no time. Where a look-up's columns are unique, a row that is missing shows
that; where they are not, nothing would, so no fact counts as whole.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.reach import Reach
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.source_view import ViewColumn, view_columns, view_of
from lockstep.sources.view_rows import key_as_json, rows_as_json

_UNIQUE = Path(__file__).with_name("catalog_reads") / "unique_columns.sql"
_STATEMENT = sql.SQL("""\
WITH moment AS MATERIALIZED (
    SELECT
        pg_current_snapshot()::text AS snapshot,
        (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS wal_lsn
)
SELECT ({key}) AS row,
    pg_xact_commit_timestamp(fact.xmin) AS fact_committed_at,
    greatest({newest}) AS newest_committed_at,
    {is_whole} AS is_whole,
    NULL::text AS snapshot,
    NULL::bigint AS wal_lsn
FROM {fact} AS fact{look_ups}
WHERE {is_fact}
UNION ALL
SELECT asked.row, NULL, NULL, NULL, NULL, NULL FROM ({rows}) AS asked (row)
UNION ALL
SELECT NULL, NULL, NULL, NULL, snapshot, wal_lsn FROM moment""")
_LOOK_UP = sql.SQL("""
CROSS JOIN LATERAL (
    SELECT
        max(pg_xact_commit_timestamp(found.xmin)) AS newest_committed_at,
        {is_whole} AS is_whole{more}
    FROM {table} AS found WHERE {is_found}
) AS {alias}""")
_Unique = Collection[tuple[TableName, frozenset[str]]]
"""Columns that are unique together."""


def look_up_statement(
    connection: psycopg.Connection, catalog: Catalog, plan: Plan, role: str
) -> str:
    """The statement; its parameters are $1, …: of each key column the values, an array of texts.

    connection: of `role`, in autocommit. Raises PipelineError and PostgresUnavailableError for what
    the mode cannot work with, otherwise as view_columns does.
    """
    (tracks,) = connection.execute("SHOW track_commit_timestamp").fetchone()
    if tracks != "on":
        raise PostgresUnavailableError(
            f"the database of source {plan.source} keeps no commit timestamps, by which mode "
            "lookup marks what may have changed since: set track_commit_timestamp to on and "
            "restart PostgreSQL"
        )
    columns = view_columns(connection, plan, role)
    found = connection.execute(_UNIQUE.read_text(encoding="utf-8"))
    unique = {(TableName(schema, table), frozenset(columns)) for schema, table, columns in found}
    return _statement(catalog, plan, columns, unique).as_string()


def _statement(
    catalog: Catalog,
    plan: Plan,
    columns: Sequence[ViewColumn],
    unique: _Unique,
) -> sql.Composed:
    fact, by_name = catalog.table(plan.fact.name), {one.name: one for one in columns}
    types = [fact.column(name).type for name in fact.key]
    for name, type_ in zip(fact.key, types, strict=True):
        if type_.startswith("timestamp") and type_.endswith("without time zone"):
            raise PipelineError(
                f"pipeline {plan.name}: mode lookup cannot ask for {fact.name}.{name} of type "
                f"{type_}: leave the mode out"
            )
    arrays = [
        sql.SQL("CAST(CAST(${} AS text[]) AS {}[])").format(sql.SQL(str(place)), sql.SQL(type_))
        for place, type_ in enumerate(types, start=1)
    ]
    key = [by_name[name] for name in plan.key]
    fact_key = [sql.Identifier("fact", name) for name in fact.key]
    asked = _are_asked([sql.Identifier(one.name) for one in key], arrays)
    look_ups = list(_look_ups(plan, unique))
    return _STATEMENT.format(
        key=key_as_json(key, fact_key),
        newest=sql.SQL(", ").join(
            [
                sql.SQL("pg_xact_commit_timestamp(fact.xmin)"),
                *(sql.Identifier(one.alias, "newest_committed_at") for one in look_ups),
            ]
        ),
        is_whole=sql.SQL(" AND ").join(
            [sql.SQL("true"), *(sql.Identifier(one.alias, "is_whole") for one in look_ups)]
        ),
        fact=_identifier(fact.name),
        look_ups=sql.SQL("").join(one.written() for one in look_ups),
        is_fact=_are_asked(fact_key, arrays),
        rows=rows_as_json(
            sql.SQL("'u'"),
            columns,
            sql.SQL("{} WHERE {}").format(_identifier(view_of(plan)), asked),
        ),
    )


@dataclass
class _LookUp:
    """One step.

    is_found: the condition of its rows. is_one: it finds one row at the most. kept: its table's
    columns that later steps look up by, each with its name in the statement, which is written when
    all steps are known.
    """

    step: Reach
    alias: str
    is_found: sql.Composable
    is_whole: sql.Composable
    is_one: bool
    kept: dict[str, str] = field(default_factory=dict)

    def written(self) -> sql.Composed:
        more = (
            sql.SQL(", array_agg(found.{}) AS {}").format(
                sql.Identifier(column), sql.Identifier(name)
            )
            for column, name in self.kept.items()
        )
        return _LOOK_UP.format(
            is_whole=self.is_whole,
            more=sql.SQL("").join(more),
            table=_identifier(self.step.table),
            is_found=self.is_found,
            alias=sql.Identifier(self.alias),
        )


def _look_ups(plan: Plan, unique: _Unique) -> Iterator[_LookUp]:
    made: list[_LookUp] = []
    for place, step in enumerate(plan.steps):
        _require_followed(plan, step, made)
        sides = [_values(plan, step, column, made) for column in step.from_columns]
        values = [side for side, _ in sides]
        is_one = all(is_one for _, is_one in sides)
        is_unique = any(
            table == step.table and columns <= {*step.columns} for table, columns in unique
        )
        found = _LookUp(
            step=step,
            alias=f"look_up_{place}",
            is_found=_is_found(step, values, is_one),
            is_whole=_is_whole(values, is_one, is_unique),
            is_one=is_one and is_unique,
        )
        made.append(found)
        yield found


def _require_followed(plan: Plan, step: Reach, made: Sequence[_LookUp]) -> None:
    is_looked_up = any(one.step.table == step.from_table for one in made)
    if step.is_element and (is_looked_up or step.from_table != plan.fact.name):
        raise PipelineError(
            f"pipeline {plan.name}: mode lookup does not follow {step.from_table}."
            f"{step.from_columns[0]}, an array of a table that is looked up: leave the mode out"
        )


def _values(
    plan: Plan, step: Reach, from_column: str, made: Sequence[_LookUp]
) -> tuple[sql.Composable, bool]:
    """What the step looks a column up by, and whether it is one value; otherwise it is an array.

    The arrays of a step's columns have a place for each row that leads on.
    """
    is_of_fact = step.from_table == plan.fact.name
    of_fact = sql.Identifier("fact", from_column)
    leading = [one for one in made if one.step.table == step.from_table]
    if not leading:
        return of_fact, not step.is_element
    kept = [
        sql.Identifier(one.alias, one.kept.setdefault(from_column, f"kept_{len(one.kept)}"))
        for one in leading
    ]
    if is_of_fact:
        kept.append(sql.SQL("ARRAY[{}]").format(of_fact))
    if len(kept) == 1 and leading[0].is_one:
        return sql.SQL("({})[1]").format(kept[0]), True
    return sql.SQL(" || ").join(kept), False


def _is_found(step: Reach, values: Sequence[sql.Composable], is_one: bool) -> sql.Composable:
    columns = [sql.Identifier("found", column) for column in step.columns]
    if not is_one:
        return _are_asked(columns, values)
    pairs = zip(columns, values, strict=True)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(*pair) for pair in pairs)


def _is_whole(values: Sequence[sql.Composable], is_one: bool, is_unique: bool) -> sql.Composable:
    """Whether all that is referred to was found; what has a null refers to nothing."""
    if not is_unique:
        return sql.SQL("false")
    if is_one:
        is_null = (sql.SQL("{} IS NULL").format(value) for value in values)
        return sql.SQL("({} OR count(*) > 0)").format(sql.SQL(" OR ").join(is_null))
    names = [sql.Identifier(f"value_{place}") for place in range(len(values))]
    return sql.SQL(
        "count(*) = (SELECT count(DISTINCT ({names})) FROM unnest({values}) AS of_array ({names}) "
        "WHERE ({names}) IS NOT NULL)"
    ).format(names=sql.SQL(", ").join(names), values=sql.SQL(", ").join(values))


def _are_asked(columns: Sequence[sql.Composable], arrays: Sequence[sql.Composable]) -> sql.Composed:
    if len(columns) == 1:
        return sql.SQL("{} = ANY({})").format(columns[0], arrays[0])
    return sql.SQL("({}) IN (SELECT * FROM unnest({}))").format(
        sql.SQL(", ").join(columns), sql.SQL(", ").join(arrays)
    )


def _identifier(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
