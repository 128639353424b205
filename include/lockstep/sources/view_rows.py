"""Rows of a pipeline's view as JSON, as pipeline/published_rows.py decodes them. Pure.

Where PostgreSQL evaluates these expressions, the time zone is UTC.
"""

from collections.abc import Sequence

from psycopg import sql

from lockstep.sources.source_view import ViewColumn


def rows_as_json(
    op: sql.Composable, columns: Sequence[ViewColumn], rows: sql.Composable
) -> sql.Composed:
    """A SELECT of one column, the text of a JSON object for each row.

    rows: what follows FROM, with all these columns.
    """
    values = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(one.published, sql.Identifier(one.name)) for one in columns
    )
    return sql.SQL(
        "SELECT row_to_json(one)::text FROM (SELECT {op} AS op, {values} FROM {rows}) AS one"
    ).format(op=op, values=values, rows=rows)


def key_as_json(key: Sequence[ViewColumn], values: Sequence[sql.Composable]) -> sql.Composed:
    """The same of a row that is deleted: the key alone. values: of its columns, in their order."""
    typed = sql.SQL(", ").join(
        sql.SQL("CAST({} AS {}) AS {}").format(value, sql.SQL(one.pg), sql.Identifier(one.name))
        for value, one in zip(values, key, strict=True)
    )
    return rows_as_json(sql.SQL("'d'"), key, sql.SQL("(SELECT {}) AS deleted").format(typed))
