"""What the checks look at, as Arrow tables: a table's columns, and the rows of a window.

Only scalars leave the lakehouse (about 70 bytes a row; texts as categories, but a key's), so a
window of a million rows is checked in bounded memory. Never judges what it reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.model.window import Window
from lockstep.pipeline.checks import NO_CHECKS, ChecksManifest
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import RowKeys
from lockstep.quality.change_sql import changes_sql
from lockstep.quality.row_sql import rows_sql
from lockstep.sources import delta
from lockstep.sources.errors import QueryError

_ABSENT = "(absent)"


def columns_frame(
    table: DeltaTable, columns: Mapping[str, str], partitions: Sequence[str]
) -> pa.Table:
    """The table's columns beside the contract's: column, found, declared; types as SQL writes them.

    columns: name and type as declared. The partitioning is a row of its own. A column that one side
    lacks is "(absent)" there.
    """
    found = delta.column_types(table)
    declared = dict(columns)
    found["partitioned by"] = ", ".join(table.metadata().partition_columns)
    declared["partitioned by"] = ", ".join(partitions)
    names = [*declared, *(name for name in found if name not in declared)]
    return pa.table(
        {
            "column": names,
            "found": [found.get(name, _ABSENT) for name in names],
            "declared": [declared.get(name, _ABSENT) for name in names],
        }
    )


def is_as_declared(columns: pa.Table) -> bool:
    """Whether rows can be read as declared, given the columns_frame."""
    return columns["found"].equals(columns["declared"])


@dataclass(frozen=True)
class WrittenRows:
    """The hourly table in one version, and a window of it that these runs wrote."""

    table: DeltaTable
    window: Window
    run_ids: Sequence[str]


def rows_frame(rows: WrittenRows, plan: Plan) -> pa.Table:
    """The window's rows, one row each, with the columns of row_sql.rows_sql.

    Rows of the same runs within a day outside the window are there too, to be found out. Raises
    ManifestError for SQL of the author's that cannot be used, LakehouseError when the rows cannot
    be read.
    """
    try:
        frame = _rows(rows, plan.result, plan.checks)
    except (QueryError, pa.ArrowException) as error:
        _require_usable_sql(rows, plan)
        raise _unreadable(rows.table, rows.window, error) from error
    _require_scalars(frame, plan)
    return frame


def key_labels(frame: pa.Table, row_keys: RowKeys) -> Callable[[int], str]:
    """Names the row at a place of a frame by its key, as commands take it."""

    def label(place: int) -> str:
        key = tuple(frame[name][place].as_py() for name in row_keys.names)
        return "null" if key == (None,) else row_keys.shown(row_keys.text(key))

    return label


def column_labels(frame: pa.Table) -> Callable[[int], str]:
    """Names the row at a place of a frame by its first column."""
    return lambda place: str(frame.column(0)[place].as_py())


def changes_frame(
    change_log: DeltaTable, result: Result, window: Window, frontier: int | None = None
) -> pa.Table:
    """All changes of the window's rows, one row each, as change_log.sql gives them.

    frontier: those up to this commit LSN, and those without one. Raises LakehouseError when they
    cannot be read.
    """
    try:
        sql = changes_sql(result, window, frontier)
        return _answer(sql, {"whole_log": change_log}, result.key)
    except (QueryError, pa.ArrowException) as error:
        raise _unreadable(change_log, window, error) from error


def _rows(rows: WrittenRows, result: Result, checks: ChecksManifest) -> pa.Table:
    sql = rows_sql(result, checks, rows.window, rows.run_ids)
    return _answer(sql, {"hourly": rows.table}, result.key)


def _answer(sql: str, tables: Mapping[str, DeltaTable], key: Iterable[str]) -> pa.Table:
    reader = delta.run_query(sql, tables)
    key = frozenset(key)
    empty = _light(pa.RecordBatch.from_pylist([], reader.schema), key)
    return pa.Table.from_batches((_light(batch, key) for batch in reader), empty.schema)


def _light(batch: pa.RecordBatch, key: frozenset[str]) -> pa.RecordBatch:
    """Texts as categories, and decimals as numbers, but a key's: those name the rows exactly."""
    columns = {
        name: column if name in key else _light_column(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def _light_column(column: pa.Array) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        return pc.dictionary_encode(column.cast(pa.string()))
    return column


def _require_usable_sql(rows: WrittenRows, plan: Plan) -> None:
    """Raise ManifestError for each derived scalar alone at which the question fails.

    Nothing when it fails without any of them: then it is the table that cannot be read.
    """
    if _fault(rows, plan.result, NO_CHECKS):
        return
    faults = {
        place: _fault(rows, plan.result, NO_CHECKS.model_copy(update={"derived": (one,)}))
        for place, one in enumerate(plan.checks.derived)
    }
    _refuse(plan, {place: fault for place, fault in faults.items() if fault})


def _fault(rows: WrittenRows, result: Result, checks: ChecksManifest) -> str:
    """Why the question cannot be answered; empty when it can."""
    try:
        _rows(rows, result, checks)
    except (QueryError, pa.ArrowException) as error:
        return delta.reason(error)
    return ""


def _require_scalars(frame: pa.Table, plan: Plan) -> None:
    types = {one.name: one.type for one in frame.schema}
    nested = {
        place: f"it gives {types[one.name]}, and a check is about a scalar"
        for place, one in enumerate(plan.checks.derived)
        if pa.types.is_nested(types[one.name])
    }
    _refuse(plan, nested)


def _refuse(plan: Plan, faults: Mapping[int, str]) -> None:
    if faults and plan.checks_file:
        raise ManifestError(plan.checks_file.problem_of_sql(*one) for one in faults.items())


def _unreadable(table: DeltaTable, window: Window, error: Exception) -> LakehouseError:
    return LakehouseError(
        f"the rows of {window} cannot be read from {table.table_uri}: {delta.reason(error)}"
    )
