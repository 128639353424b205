"""`lockstep sql`: one SELECT over the lakehouse's Delta tables, answered in about a second.

No Spark starts: delta-rs reads, its DataFusion engine computes. Never writes to the lakehouse.
How an answer looks is in sql_answer.py.
"""

import re
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.errors import LakehouseError
from lockstep.settings import Settings
from lockstep.sources.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ROWS_DEFAULT = 100
"""Rows shown in a table unless --limit says otherwise: what a person may scroll through."""

_LEADING_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/|\()*", re.DOTALL)
_UNKNOWN_TABLE = re.compile(r"table '(?:datafusion\.public\.)?([^']+)' not found")


class AnswerFormat(StrEnum):
    """How the rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command to the `lockstep` application."""
    app.command(name="sql")(sql)


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="One SELECT; a table goes by the last part of its path, such as readings__batch, "
            "by readings.batch, or by batch where no other pipeline has one.",
        ),
    ],
    answer_format: Annotated[
        AnswerFormat, typer.Option("--format", help="How the rows are written.")
    ] = AnswerFormat.TABLE,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Write at the most this many rows; a table stops at {TABLE_ROWS_DEFAULT}, "
            "csv and json write all.",
        ),
    ] = None,
) -> None:
    """Look at the Delta tables with SQL, without starting Spark."""
    from lockstep.cli import sql_answer

    started = time.monotonic()
    reader = answer(Settings.load(), query)
    match answer_format:
        case AnswerFormat.TABLE:
            sql_answer.write_table(reader, limit or TABLE_ROWS_DEFAULT, started)
        case AnswerFormat.CSV:
            sql_answer.write_csv(reader, limit)
        case AnswerFormat.JSON:
            sql_answer.write_json(reader, limit)


def answer(settings: Settings, query: str) -> "pa.RecordBatchReader":
    """Plan the query over the tables it names; the rows are computed as they are read.

    Raises QueryError for anything but one SELECT and for what the engine refuses (an unknown table
    with the list of those there are; a short name of several), LakehouseError when there is no
    table at all.
    """
    from lockstep.cli.sql_names import with_full_names
    from lockstep.sources import delta

    _refuse_all_but_select(query)
    uris = delta.table_uris(settings)
    if not uris:
        raise LakehouseError(
            f"the lakehouse {settings.lakehouse_uri} holds no Delta table yet: "
            "`lockstep batch run` writes the first (or set LOCKSTEP_LAKEHOUSE, LOCKSTEP_HOME)"
        )
    query = with_full_names(query, uris)
    words = set(re.findall(r"\w+", query.lower()))
    named = {name: delta.open_table(uri) for name, uri in uris.items() if name.lower() in words}
    try:
        return delta.run_query(query, named)
    except QueryError as error:
        unknown = _UNKNOWN_TABLE.search(str(error))
        if unknown is None:
            raise
        raise QueryError(
            f"there is no table {unknown[1]} in {settings.lakehouse_uri}; "
            f"there is: {', '.join(sorted(uris))}"
        ) from error


def _refuse_all_but_select(query: str) -> None:
    """The engine also knows COPY … TO and CREATE EXTERNAL TABLE, which touch any file."""
    statement = query[_LEADING_COMMENTS.match(query).end() :]
    first_word = re.match(r"\w*", statement)[0].upper()
    if first_word not in {"SELECT", "WITH"}:
        raise QueryError(
            f"only SELECT is answered, and the query begins with {first_word or 'nothing'}: "
            'lockstep sql "SELECT …"'
        )
