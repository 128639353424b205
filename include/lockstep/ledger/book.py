"""The ledger of comparisons, two Delta tables: a line for each, and the rows that differed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random

from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.ledger.differences_of_before import require_row_keys
from lockstep.ledger.entries import (
    DIFFERENCES_COLUMNS,
    LEDGER_COLUMNS,
    ROW_KEY,
    Comparison,
    Difference,
    Judged,
    Reached,
)
from lockstep.ledger.reached import reached_of
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.row_keys import literal
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table, run_query

COMPACTED_EVERY = 100
"""Commits, each a file of a line: a year of hours and modes has 44,000."""
WRITER_SECONDS_MAX = 60.0
"""A line is written in a moment; so long is waited for another's."""


def append(settings: Settings, line: Comparison, differences: Sequence[Difference]) -> None:
    """Add a line and its differences, which no reader sees before the line. Nothing is rewritten.

    Raises LakehouseError when a table cannot be written, or is to be upgraded first.
    """
    if differences:
        require_row_keys(settings)
        rows = [_difference_row(line, difference) for difference in differences]
        append_rows(settings, settings.names.differences, DIFFERENCES_COLUMNS, rows)
    append_rows(settings, settings.names.ledger, LEDGER_COLUMNS, [line_row(line)])


def lines(
    settings: Settings, mode: StreamMode | None = None, since: datetime | None = None
) -> list[Comparison]:
    """All lines, the oldest first; none before the first comparison.

    mode: only this one's. since: only of windows that begin then or later.
    """
    conditions = [] if mode is None else [f"mode = '{mode}'"]
    if since is not None:
        conditions.append(f"window_start >= TIMESTAMP '{since.isoformat()}'")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT * FROM ledger {where} ORDER BY checked_at"  # noqa: S608
    return [_line_of(row) for row in rows_of(settings, settings.names.ledger, query)]


def judged(settings: Settings) -> list[Judged]:
    """The least of every line: a year of hours and modes is read in a moment."""
    found = _least(settings)
    if found is None:
        return []
    modes, starts, ends, verdicts, *others = (column.to_pylist() for column in found.columns)
    known = {str(value): value for value in (*StreamMode, *Verdict)}
    return [
        Judged(known[mode], start, end, known[verdict], *rest)
        for mode, start, end, verdict, *rest in zip(
            modes, starts, ends, verdicts, *others, strict=True
        )
    ]


def reached(settings: Settings, version: str) -> dict[StreamMode, Reached]:
    """How far each mode that was ever compared has come; version: of the pipeline now."""
    found = _least(settings)
    return {} if found is None else reached_of(found, version)


def _least(settings: Settings) -> pa.Table | None:
    """The least of every line; None while there is no ledger."""
    uri = settings.table_uri(settings.names.ledger)
    if not DeltaTable.is_deltatable(uri):
        return None
    ledger = open_table(uri)
    is_versioned = "pipeline_version" in {field.name for field in ledger.schema().fields}
    version = "pipeline_version" if is_versioned else "NULL"
    query = (
        "SELECT mode, window_start, window_end, verdict, checked_at, "  # noqa: S608
        f"COALESCE({version}, '{VERSION_OF_BEFORE}') AS version FROM ledger"
    )
    return run_query(query, {"ledger": ledger}).read_all()


def differences(settings: Settings, check_id: str) -> list[Difference]:
    """What one comparison found, by class and key.

    Raises LakehouseError when the table cannot be read, or is to be upgraded first.
    """
    require_row_keys(settings)
    query = f"SELECT * FROM ledger WHERE check_id = {literal(check_id)}"  # noqa: S608
    found = [_difference_of(row) for row in rows_of(settings, settings.names.differences, query)]
    return sorted(found, key=lambda one: (one.kind, one.key_values))


def rows_of(settings: Settings, table: str, query: str) -> list[dict]:
    """The answer to a query over one of the ledger's tables, `ledger`; none before its first line.

    Raises LakehouseError or QueryError.
    """
    found = _table(settings, table, query)
    return [] if found is None else found.to_pylist()


def _table(settings: Settings, table: str, query: str) -> pa.Table | None:
    """The query's answer; None while there is no such table."""
    uri = settings.table_uri(table)
    if not DeltaTable.is_deltatable(uri):
        return None
    return run_query(query, {"ledger": open_table(uri)}).read_all()


def append_rows(
    settings: Settings, table: str, columns: Mapping[str, str], rows: list[dict]
) -> None:
    """Add lines to one of the ledger's tables; none is rewritten. Raises LakehouseError.

    A table that lacks a column gets it, with nulls in the lines of before.
    """
    content = pa.Table.from_pylist(rows, arrow_schema(columns))
    uri = settings.table_uri(table)

    @retry(
        retry=retry_if_exception_type(WriterBusyError),
        stop=stop_after_delay(WRITER_SECONDS_MAX),
        wait=wait_random(0.05, 0.5),
        reraise=True,
    )
    def write() -> None:
        with sole_writer(settings, table):
            write_deltalake(
                uri, content, mode="append", schema_mode="merge", configuration=_APPEND_ONLY
            )
            if (written := DeltaTable(uri)).version() % COMPACTED_EVERY == COMPACTED_EVERY - 1:
                written.optimize.compact()
                written.create_checkpoint()

    try:
        write()
    except (DeltaError, OSError) as error:
        raise LakehouseError(f"the ledger {uri} cannot be written: {error}") from error


_APPEND_ONLY = {"delta.appendOnly": "true"}


def line_row(line: Comparison) -> dict:
    """The line as a row of LEDGER_COLUMNS."""
    row = {f.name: getattr(line, f.name) for f in fields(Comparison)}
    window, counts = row.pop("window"), row.pop("counts")
    return {
        **row,
        "window_start": window.start,
        "window_end": window.end,
        "mode": str(line.mode),
        "verdict": str(line.verdict),
        **{str(kind): counts.get(kind, 0) for kind in DifferenceClass},
    }


def _line_of(row: dict) -> Comparison:
    counts = {kind: row.pop(kind) for kind in DifferenceClass}
    window = Window(row.pop("window_start"), row.pop("window_end"))
    version = row.pop("pipeline_version", None) or VERSION_OF_BEFORE
    task_log = row.pop("task_log", None) or ""
    row["mode"], row["verdict"] = StreamMode(row["mode"]), Verdict(row["verdict"])
    counts = {kind: n for kind, n in counts.items() if n}
    return Comparison(
        window=window, counts=counts, pipeline_version=version, task_log=task_log, **row
    )


def _difference_row(line: Comparison, difference: Difference) -> dict:
    return {
        "check_id": line.check_id,
        "window_start": line.window.start,
        "mode": str(line.mode),
        **_renamed(asdict(difference), _COLUMN_OF),
    }


def _difference_of(row: dict) -> Difference:
    names = {column: name for name, column in _COLUMN_OF.items()}
    values = _renamed(row, names)
    values = {f.name: values[f.name] for f in fields(Difference)}
    return Difference(**values | {"kind": DifferenceClass(values["kind"])})


_COLUMN_OF = {"kind": "class", "key": ROW_KEY}
"""Attributes of Difference whose column has another name."""


def _renamed(values: Mapping[str, object], names: Mapping[str, str]) -> dict:
    return {names.get(name, name): value for name, value in values.items()}
