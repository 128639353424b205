"""The two tables of a window's comparison, each at one point of its history, read by delta-rs.

The hourly table at a version. The change log up to a frontier: it is only appended to, so that
later versions say the same of it, and those of before need not be kept. Here is what Spark would
take a job for, or seconds for the files of few rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.model.window import Window
from lockstep.parity.differences import COMMIT
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of, pipeline_version_of
from lockstep.sinks.window_conditions import inside, of_time, up_to
from lockstep.sources.delta import column_types, open_table, run_query

ROWS_MAX = 10_000
"""Of the hourly table; above that reading them into the JVM costs more than it saves."""
CHANGES_MAX = 4 * ROWS_MAX
"""Changes of the window's rows; more of them are read by Spark."""
_BOUNDED = ("smallint", "int", "bigint", "date", "timestamp")
"""Types of keys that come in about the order of time, so that bounds leave out other files."""


@dataclass(frozen=True)
class KeyBounds:
    """The least and the greatest key of a window's rows, where a key is one column: literals of SQL
    for Spark and DataFusion; NULL where there is no row. They let Delta skip most files of a long
    history."""

    least: str
    greatest: str


@dataclass(frozen=True)
class Sides:
    """A window of the hourly table and of a mode's change log, at the points of `ready`."""

    settings: Settings
    plan: Plan
    window: Window
    mode: Mode
    ready: Readiness

    @cached_property
    def hourly(self) -> DeltaTable:
        uri = self.settings.table_uri(self.plan.hourly_table)
        return open_table(uri, self.ready.batch_version)

    @cached_property
    def log(self) -> DeltaTable:
        log = open_table(self.settings.table_uri(self.plan.change_log(self.mode)))
        of_now = capture_id_of(log), pipeline_version_of(log)
        if of_now != (self.ready.capture_id, self.ready.version):
            raise LakehouseError(
                f"{log.table_uri} was made again while it was compared: compare the window again"
            )
        return log

    def differing_columns(self) -> list[str]:
        """Where the compared columns of the two tables are absent or of different types."""
        batch, stream = column_types(self.hourly), column_types(self.log)
        return [
            f"{name}: {batch.get(name, 'absent')} in the hourly table, "
            f"{stream.get(name, 'absent')} in the stream's"
            for name in self.plan.outputs
            if batch.get(name) is None or batch.get(name) != stream.get(name)
        ]

    @cached_property
    def key_bounds(self) -> KeyBounds | None:
        """Of the rows that either side has in the window; None where keys are not in order of
        time."""
        plan = self.plan
        if len(plan.key) != 1 or plan.fact.key_types[0].delta not in _BOUNDED:
            return None
        name, found = quoted(plan.key[0]), []
        for rows in (self._rows, self._timed_changes):
            (row,) = self._answer(f"SELECT min({name}), max({name}) FROM {rows}").to_pylist()  # noqa: S608
            found += [value for value in row.values() if value is not None]
        return KeyBounds(_literal(min(found, default=None)), _literal(max(found, default=None)))

    def has_repeated_keys(self) -> bool:
        """Whether the hourly table has a row of the window twice."""
        of_key = f"SELECT COUNT(*) AS n FROM {self._rows} GROUP BY {_listed(self.plan.key)}"  # noqa: S608
        (found,) = self._answer(f"SELECT MAX(n) AS most FROM ({of_key})").to_pylist()  # noqa: S608
        return (found["most"] or 0) > 1

    @cached_property
    def few(self) -> tuple[pa.Table, pa.Table] | None:
        """The window's rows of the hourly table, and all changes that the change log has of the
        rows which either side has there, by key and commit; None when there are more than few. In
        memory."""
        if self.ready.run.orders_at_cut > ROWS_MAX:
            return None
        plan, key, bounds = self.plan, _listed(self.plan.key), self.key_bounds
        limit = f"LIMIT {CHANGES_MAX + 1}"
        rows = self._read(self.hourly, (*plan.outputs, "origin"), f"{self._rows} {limit}")
        log = "log"
        if bounds:
            between = f"{key} BETWEEN {bounds.least} AND {bounds.greatest}"
            log = f"(SELECT * FROM log WHERE {between}) AS log"  # noqa: S608 - literals of ours
        keys = f"SELECT {key} FROM {self._rows} UNION SELECT {key} FROM {self._timed_changes}"  # noqa: S608
        same = " AND ".join(f"log.{quoted(name)} = of_window.{quoted(name)}" for name in plan.key)
        changes = self._read(
            self.log,
            (*plan.outputs, *COMMIT, "is_raced", "look_up"),
            f"{log} LEFT SEMI JOIN ({keys}) AS of_window ON {same} {limit}",
        )
        if max(rows.num_rows, changes.num_rows) > CHANGES_MAX:
            return None
        in_order = [(name, "ascending") for name in (*plan.key, "commit_lsn", "op")]
        return rows, changes.sort_by(in_order)

    def has_rows_of(self, other: "Sides") -> bool:
        """Whether another mode of the window has the very same changes, at the same cut.

        Only few rows are compared: of more it says no.
        """
        mine, theirs = (
            (one.ready.run, one.ready.repairs, one.ready.batch_version) for one in (self, other)
        )
        if mine != theirs or self.few is None or other.few is None:
            return False
        return self.few[1].equals(other.few[1])

    @property
    def _rows(self) -> str:
        return f"hourly WHERE {inside(self.window, quoted(self.plan.time))}"

    @property
    def _timed_changes(self) -> str:
        """Those whose time is in the window."""
        return f"log WHERE {of_time(self.window, quoted(self.plan.time))}"

    def _read(self, table: DeltaTable, names: Sequence[str], rest: str) -> pa.Table:
        """Those of the columns that the table has, in the types that Delta has for them: DataFusion
        reads text as views of it."""
        schema = pa.schema(table.schema().to_arrow())
        there = [schema.field(name).with_nullable(True) for name in names if name in schema.names]
        found = self._answer(f"SELECT {_listed(one.name for one in there)} FROM {rest}")  # noqa: S608
        wanted = pa.schema(there)
        return found.cast(wanted) if found.num_rows else wanted.empty_table()

    def _answer(self, query: str) -> pa.Table:
        tables = {"hourly": self.hourly, "whole_log": self.log}
        log = f"SELECT * FROM whole_log WHERE {up_to(self.ready.frontier)}"  # noqa: S608
        return run_query(f"WITH log AS ({log}) {query}", tables).read_all()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _literal(value: int | date | datetime | None) -> str:
    """In SQL that Spark and DataFusion both read."""
    match value:
        case None:
            return "NULL"
        case datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return str(value)
