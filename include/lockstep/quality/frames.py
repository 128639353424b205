"""What the checks look at, as pandas frames: the table's columns, and a window's rows.

Only scalars leave the lakehouse (about 70 bytes an order; names and run ids as categories), so a
window of a million orders is checked in bounded memory. Never judges what it reads.
"""

from collections.abc import Sequence
from datetime import timedelta
from string import Template
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from lockstep import contracts
from lockstep.contracts import Window
from lockstep.errors import LakehouseError
from lockstep.settings import PROJECT_DIR
from lockstep.sources import delta

if TYPE_CHECKING:
    import pandas as pd

ROWS_SQL = PROJECT_DIR / "include" / "sql" / contracts.PIPELINE / "orders_enriched_quality.sql"

_STRAY_DAYS = timedelta(days=1)
"""Rows written outside their window are looked for a day around it: time zone slips end there,
and a whole year of partitions need not be opened for each hour."""

_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_ABSENT = "(absent)"


def columns_frame(table: DeltaTable) -> "pd.DataFrame":
    """The table's columns beside the contract's: column, found, declared; types as SQL writes them.

    The partitioning is a row of its own. A column that one side lacks is "(absent)" there.
    """
    import pandas as pd

    found = {field.name: _type_text(field.type) for field in table.schema().fields}
    declared = dict(contracts.ORDERS_ENRICHED_BATCH_COLUMNS)
    found["partitioned by"] = ", ".join(table.metadata().partition_columns)
    declared["partitioned by"] = ", ".join(contracts.ORDERS_ENRICHED_BATCH_PARTITIONS)
    columns = [*declared, *(name for name in found if name not in declared)]
    return pd.DataFrame(
        {
            "column": columns,
            "found": [found.get(name, _ABSENT) for name in columns],
            "declared": [declared.get(name, _ABSENT) for name in columns],
        }
    )


def _type_text(delta_type: object) -> str:
    """A Delta type as Spark's DDL writes it: array<struct<pizza:string,price:decimal(10,2)>>."""
    if hasattr(delta_type, "element_type"):
        return f"array<{_type_text(delta_type.element_type)}>"
    if hasattr(delta_type, "fields"):
        fields = ",".join(f"{field.name}:{_type_text(field.type)}" for field in delta_type.fields)
        return f"struct<{fields}>"
    name = str(getattr(delta_type, "type", delta_type))
    return _SQL_NAMES.get(name, name)


def rows_frame(table: DeltaTable, window: Window, run_ids: Sequence[str]) -> "pd.DataFrame":
    """The window's orders, one row each, with the columns of orders_enriched_quality.sql.

    Rows of the same run or repairs within a day outside the window are there too, to be found out.
    Raises LakehouseError when the rows cannot be read.
    """
    sql = Template(ROWS_SQL.read_text(encoding="utf-8")).substitute(
        first_date=(window.start - _STRAY_DAYS).date(),
        last_date=(window.end + _STRAY_DAYS).date(),
        window_start=window.start.isoformat(),
        window_end=window.end.isoformat(),
        run_ids="', '".join(id_.replace("'", "''") for id_ in run_ids),  # none are bound here
    )
    name = contracts.ORDERS_ENRICHED_BATCH.rsplit("/", 1)[-1]
    try:
        rows = delta.run_query(sql, {name: table}).read_all()
    except pa.ArrowException as error:
        raise LakehouseError(
            f"the rows of {window} cannot be read from {table.table_uri}: {delta.reason(error)}"
        ) from error
    return rows.to_pandas(split_blocks=True, self_destruct=True)
