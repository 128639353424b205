"""What the checks look at, as Arrow tables: a table's columns, and the rows of a window.

Only scalars leave the lakehouse (about 70 bytes a row; names and run ids as categories), so a
window of a million orders is checked in bounded memory. Never judges what it reads.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from string import Template

import pyarrow as pa
from deltalake import DeltaTable

from lockstep import pizzeria
from lockstep.errors import LakehouseError
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.model.window import Window
from lockstep.project import MARKER, read_project_file
from lockstep.sources import delta

_SQL = MARKER / pizzeria.PIPELINE
ROWS_SQL = _SQL / "orders_enriched_quality.sql"
CHANGES_SQL = _SQL / "change_log_quality.sql"

_STRAY_DAYS = timedelta(days=1)
"""Rows written outside their window are looked for a day around it: time zone slips end there,
and a whole year of partitions need not be opened for each hour."""

_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_ABSENT = "(absent)"


def columns_frame(
    table: DeltaTable, columns: Mapping[str, str], partitions: Sequence[str]
) -> pa.Table:
    """The table's columns beside the contract's: column, found, declared; types as SQL writes them.

    columns: name and type as declared. The partitioning is a row of its own. A column that one side
    lacks is "(absent)" there.
    """
    found = {field.name: _type_text(field.type) for field in table.schema().fields}
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


def _type_text(delta_type: object) -> str:
    """A Delta type as Spark's DDL writes it: array<struct<pizza:string,price:decimal(10,2)>>."""
    if hasattr(delta_type, "element_type"):
        return f"array<{_type_text(delta_type.element_type)}>"
    if hasattr(delta_type, "fields"):
        fields = ",".join(f"{field.name}:{_type_text(field.type)}" for field in delta_type.fields)
        return f"struct<{fields}>"
    name = str(getattr(delta_type, "type", delta_type))
    return _SQL_NAMES.get(name, name)


def rows_frame(table: DeltaTable, window: Window, run_ids: Sequence[str]) -> pa.Table:
    """The window's orders, one row each, with the columns of orders_enriched_quality.sql.

    Rows of the same run or repairs within a day outside the window are there too, to be found out.
    Raises LakehouseError when the rows cannot be read.
    """
    values = {
        "first_date": str((window.start - _STRAY_DAYS).date()),
        "last_date": str((window.end + _STRAY_DAYS).date()),
        # DataFusion has no bound values here
        "run_ids": "', '".join(id_.replace("'", "''") for id_ in run_ids),
    }
    name = pizzeria.sql_name(pizzeria.ORDERS_ENRICHED_BATCH)
    return _answer(ROWS_SQL, {name: table}, window, values)


def changes_frame(change_log: DeltaTable, window: Window) -> pa.Table:
    """All changes of the window's orders, one row each, as change_log_quality.sql gives them.

    Raises LakehouseError when the rows cannot be read.
    """
    values = {"snapshot_lsn": str(SNAPSHOT_COMMIT_LSN)}
    return _answer(CHANGES_SQL, {"change_log": change_log}, window, values)


def _answer(
    file: Path, tables: Mapping[str, DeltaTable], window: Window, values: Mapping[str, str]
) -> pa.Table:
    bounds = {"window_start": window.start.isoformat(), "window_end": window.end.isoformat()}
    sql = Template(read_project_file(file)).substitute(bounds | values)
    try:
        return delta.run_query(sql, tables).read_all()
    except pa.ArrowException as error:
        (table,) = tables.values()
        raise LakehouseError(
            f"the rows of {window} cannot be read from {table.table_uri}: {delta.reason(error)}"
        ) from error
