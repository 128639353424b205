"""Which rows of the database a row of the hourly table was made of: the column `origin`.

In Spark and without it, from a read that has more columns than the result: row_xid, the transaction
that wrote the fact's row (32 bits); row_committed_at, null when the database does not track that;
and of a pipeline with children row_children, a digest of the keys and transactions of their rows,
since a child's change leaves the fact's row as it was.
"""

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from lockstep.cdc.cuts import XID_SPAN, DatabaseSnapshot
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan

_XMIN = "xmin"
"""PostgreSQL's own column: which transaction wrote the row."""
ROW_XID, ROW_COMMITTED_AT, ROW_CHILDREN = "row_xid", "row_committed_at", "row_children"
_ROWS_OF_A_CHILD = sql.SQL(
    "(SELECT string_agg(concat_ws(' ', {key}, child.xmin), ',' ORDER BY {key}) "
    "FROM {table} AS child WHERE {is_owned})"
)


def origin_reads_names(plan: Plan) -> tuple[str, ...]:
    """The names of the columns that a read has more."""
    return (ROW_XID, ROW_COMMITTED_AT, *([ROW_CHILDREN] if plan.children else []))


def origin_reads(fact: str, plan: Plan) -> list[sql.Composed]:
    """What PostgreSQL gives for each of them. fact: what the table is called in the query."""
    xmin = sql.Identifier(fact, _XMIN)
    reads = [
        sql.SQL("{}::text::bigint").format(xmin),
        sql.SQL(
            "CASE WHEN current_setting('track_commit_timestamp')::boolean "
            "THEN pg_xact_commit_timestamp({}) END"
        ).format(xmin),
    ]
    if plan.children:
        rows = [_rows_of_child(fact, plan, child) for child in plan.children]
        reads.append(sql.SQL("md5(concat_ws(';', {}))").format(sql.SQL(", ").join(rows)))
    names = map(sql.Identifier, origin_reads_names(plan))
    return [sql.SQL("{} AS {}").format(*pair) for pair in zip(reads, names, strict=True)]


def origin_columns_read(plan: Plan) -> dict[TableName, set[str]]:
    """Which columns of the fact and its children `origin_reads` needs, with the fact's key, by
    which it is joined."""
    of_children = {
        child: {*columns, *plan.tables[child].key, _XMIN}
        for child, columns in plan.children.items()
    }
    return {plan.fact.name: {*plan.fact.key, _XMIN}, **of_children}


def _rows_of_child(fact: str, plan: Plan, child: TableName) -> sql.Composed:
    owned = zip(plan.children[child], plan.fact.key, strict=True)
    pairs = (
        sql.SQL("{} = {}").format(sql.Identifier("child", column), sql.Identifier(fact, key))
        for column, key in owned
    )
    key = (sql.Identifier("child", name) for name in plan.tables[child].key)
    return _ROWS_OF_A_CHILD.format(
        key=sql.SQL(", ").join(key),
        table=sql.Identifier(child.schema, child.name),
        is_owned=sql.SQL(" AND ").join(pairs),
    )


def origin_column(snapshot: DatabaseSnapshot, plan: Plan) -> str:
    """The column of the rows of a read, in Spark's SQL.

    The row's transaction is one of the 2^32 before the snapshot's next one (xmax), which gives the
    number that the row has of it the upper half.
    """
    xmax, span = f"{snapshot.xmax}L", f"{XID_SPAN}L"
    fields = [
        f"{xmax} - pmod({xmax} - {ROW_XID}, {span}) AS tx_id",
        f"{ROW_COMMITTED_AT} AS committed_at",
        *([f"{ROW_CHILDREN} AS children"] if plan.children else []),
    ]
    return f"struct({', '.join(fields)}) AS origin"


def origin_value(read: Mapping[str, Any], snapshot: DatabaseSnapshot) -> dict[str, Any]:
    """The same of one row."""
    children = {"children": read[ROW_CHILDREN]} if ROW_CHILDREN in read else {}
    return {
        "tx_id": snapshot.full_tx_id(read[ROW_XID]),
        "committed_at": read[ROW_COMMITTED_AT],
        **children,
    }
