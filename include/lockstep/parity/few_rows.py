"""Both sides of a window of few rows as Arrow tables, read by delta-rs.

Spark takes seconds to find the files of a window's tables, in a cold JVM more, however few rows are
in them; delta-rs takes milliseconds. What is read is in memory, so larger windows are Spark's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.model.window import Window
from lockstep.parity.differences import COMMIT
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import inside, of_time
from lockstep.sources.delta import open_table, run_query


@dataclass(frozen=True)
class KeyBounds:
    """The least and the greatest key of a window's rows, where a key is one column: literals of
    SQL; NULL where there is no row. They let Delta skip most files of a long history."""

    least: str
    greatest: str


ROWS_MAX = 10_000
"""Of the hourly table; above that reading them into the JVM costs more than it saves."""
CHANGES_MAX = 4 * ROWS_MAX
"""Changes of the window's rows; more of them are read by Spark."""


def read_few(
    settings: Settings,
    plan: Plan,
    window: Window,
    mode: Mode,
    ready: Readiness,
    bounds: KeyBounds | None = None,
) -> tuple[pa.Table, pa.Table] | None:
    """The window's rows of the hourly table, and all changes that the change log has of the rows
    which either side has there; None when there are more than few.

    bounds: of the keys of all of these.
    """
    if ready.run.orders_at_cut > ROWS_MAX:
        return None
    hourly = open_table(settings.table_uri(plan.hourly_table), ready.batch_version)
    log = open_table(settings.table_uri(plan.change_log(mode)), ready.stream_version)
    tables, time, key = {"hourly": hourly, "log": log}, quoted(plan.time), _listed(plan.key)
    rows = _read(
        hourly,
        tables,
        _there(hourly, (*plan.outputs, "origin")),
        f"hourly WHERE {inside(window, time)} LIMIT {CHANGES_MAX + 1}",
    )
    keys = (
        f"SELECT {key} FROM hourly WHERE {inside(window, time)} "  # noqa: S608 - quoted names
        f"UNION SELECT {key} FROM log WHERE {of_time(window, time)}"
    )
    same = " AND ".join(f"log.{quoted(name)} = of_window.{quoted(name)}" for name in plan.key)
    bounded = "log"
    if bounds:
        between = f"{key} BETWEEN {bounds.least} AND {bounds.greatest}"
        bounded = f"(SELECT * FROM log WHERE {between}) AS log"  # noqa: S608 - literals of ours
    changes = _read(
        log,
        tables,
        _there(log, (*plan.outputs, *COMMIT, "is_raced", "look_up")),
        f"{bounded} LEFT SEMI JOIN ({keys}) AS of_window ON {same} LIMIT {CHANGES_MAX + 1}",
    )
    is_few = max(rows.num_rows, changes.num_rows) <= CHANGES_MAX
    return (rows, changes) if is_few else None


def _there(table: DeltaTable, names: Iterable[str]) -> list[str]:
    """Those of the names that the table has as columns."""
    known = {field.name for field in table.schema().fields}
    return [name for name in names if name in known]


def _read(
    table: DeltaTable, tables: Mapping[str, DeltaTable], names: Sequence[str], rest: str
) -> pa.Table:
    """The columns, in the types that Delta has for them: DataFusion reads text as views of it."""
    query = f"SELECT {_listed(names)} FROM {rest}"  # noqa: S608 - quoted names, and our own text
    schema = pa.schema(table.schema().to_arrow())
    wanted = pa.schema([schema.field(name).with_nullable(True) for name in names])
    found = run_query(query, tables).read_all()
    return found.cast(wanted) if found.num_rows else wanted.empty_table()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
