"""What a repair of a window would do, and what running the hour again would do instead.

The database decides which rows changed, and no stream: each fact's row there is compared, by the
transaction that wrote it, with the one that the hourly table's row was made of. Never writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.cdc.cuts import DatabaseSnapshot, ExportedSnapshot, exported_snapshot
from lockstep.errors import LakehouseError
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import Key, RowKeys, quoted
from lockstep.pipeline.values import comparable
from lockstep.repair.changed_rows import ChangedRow, how_changed
from lockstep.repair.errors import RepairRefusedError
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import inside
from lockstep.sources import delta
from lockstep.sources.hourly_runs import WrittenWindow, written_by
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader
from lockstep.sources.window_rows import MadeOf, row_versions, rows_in

_TABLE, _TX_ID, _CHILDREN = "hourly", "tx_id", "origin"
"""Names that no column of a result has."""


@dataclass(frozen=True)
class Look:
    """A window in one version of the hourly table and in one snapshot of the database.

    rows: the table's, as hourly_query gives them. changed: those that a repair would merge.
    """

    written: WrittenWindow
    rows: pa.Table
    changed: list[ChangedRow]


@dataclass(frozen=True)
class RepairPlan:
    """What a person decides on.

    others: rows of the window that did not change; others_rerun: those of them that would get
        other values if the hour were run again now, for what they are joined with has changed.
    """

    window: Window
    run_id: str
    changed: list[ChangedRow]
    others: int
    others_rerun: int
    row_keys: RowKeys

    @property
    def digests(self) -> dict[str, str]:
        """What an approval of the whole plan approves, by the text of the key."""
        return {one.key: one.digest for one in self.changed}


def plan_repair(settings: Settings, window: Window) -> RepairPlan:
    """Find the rows that changed after the cut.

    Raises as `look` does, LakehouseError when there is no table, and PipelineError as plan_named
    does.
    """
    plan = plan_named(settings.project, settings.names.pipeline)
    # The table before the snapshot: what a run may write in between, this snapshot would not see.
    table = delta.open_table(settings.table_uri(settings.names.hourly_table))
    with (
        connect_to(reader(settings)) as connection,
        exported_snapshot(connection) as exported,
    ):
        seen = look(table, plan, window, exported)
        others, rerun = 0, 0
        if seen.changed:
            others, rerun = _others(seen, plan, window, exported)
    run_id = seen.written.run.cut.run_id
    return RepairPlan(window, run_id, seen.changed, others, rerun, plan.row_keys)


def look(table: DeltaTable, plan: Plan, window: Window, exported: ExportedSnapshot) -> Look:
    """Read both sides; of the database whole rows of changed ones only.

    Raises LakehouseError when the table cannot be read, WindowNotWrittenError when no run wrote
    exactly this window, RepairRefusedError when its rows are not those that its run and its repairs
    left, PostgresUnavailableError when the database hangs up.
    """
    written, result = written_by(table, window), plan.result
    rows = _hourly_rows(table, plan, window)
    keys = list(zip(*(rows[name].to_pylist() for name in result.key), strict=True))
    _require_sound(rows, keys, written, exported)
    made_of = map(MadeOf, rows[_TX_ID].to_pylist(), rows[_CHILDREN].to_pylist())
    hourly = dict(zip(keys, made_of, strict=True))
    how = how_changed(hourly, row_versions(exported, plan, window))
    before = {key: _values(rows, result, at) for at, key in enumerate(keys) if key in how}
    after = {row.key: row for row in rows_in(exported, plan, window, how.keys())}
    changed = [
        ChangedRow(plan.row_keys.text(key), how[key], before.get(key), after.get(key))
        for key in how
    ]
    return Look(written, rows, changed)


def _require_sound(
    rows: pa.Table, keys: list[Key], written: WrittenWindow, exported: ExportedSnapshot
) -> None:
    """A repair builds upon the run's rows; where those are not sound, only a new run helps."""
    window, remedy = written.run.window, "`lockstep batch run` writes the window again"
    if rows.num_rows != written.rows or len(set(keys)) < rows.num_rows:
        raise RepairRefusedError(
            f"the hourly table has {rows.num_rows:,} rows of {window}, and its last run or repair "
            f"left {written.rows:,}: they were changed by another writer; {remedy}"
        )
    if rows[_TX_ID].null_count:
        raise RepairRefusedError(
            f"{rows[_TX_ID].null_count:,} rows of {window} do not say which row of the database "
            f"they were made of (an older version wrote them); {remedy}"
        )
    cut = written.last_cut
    if DatabaseSnapshot.parse(exported.snapshot).xmax < DatabaseSnapshot.parse(cut.snapshot).xmax:
        raise RepairRefusedError(
            f"the database (snapshot {exported.snapshot}) is older than what the hourly table was "
            f"made of (snapshot {cut.snapshot}): it is another one, or an old copy; correct "
            "LOCKSTEP_POSTGRES_HOST and _PORT"
        )


def _hourly_rows(table: DeltaTable, plan: Plan, window: Window) -> pa.Table:
    query = hourly_query(plan.result, window, has_children=bool(plan.children))
    try:
        return delta.run_query(query, {_TABLE: table}).read_all()
    except pa.ArrowException as error:
        raise LakehouseError(
            f"the rows of {window} cannot be read from {table.table_uri}: {delta.reason(error)}"
        ) from error


def hourly_query(result: Result, window: Window, *, has_children: bool) -> str:
    """DataFusion SQL: a window's rows of the hourly table, each with what it was made of."""
    columns = ", ".join(map(quoted, result.columns))
    children = "origin['children']" if has_children else "CAST(NULL AS string)"
    return (
        f"SELECT {columns}, origin['{_TX_ID}'] AS {_TX_ID}, "  # noqa: S608 - quoted names only
        f"{children} AS {_CHILDREN} FROM {_TABLE} WHERE {inside(window, quoted(result.time))}"
    )


def _values(rows: pa.Table, result: Result, place: int) -> dict[str, Any]:
    (row,) = rows.select(result.values).slice(place, 1).to_pylist()
    return row


def _others(seen: Look, plan: Plan, window: Window, exported: ExportedSnapshot) -> tuple[int, int]:
    """How many rows did not change, and how many of them would not come out the same today.

    A number for each row is kept, not its values: a window may have a million of them.
    """
    result, changed = plan.result, {plan.row_keys.read(one.key) for one in seen.changed}
    held = {
        key: _fingerprint(row, result)
        for part in seen.rows.to_batches()
        for row in part.to_pylist()
        if (key := tuple(row[name] for name in result.key)) not in changed
    }
    rerun = sum(
        now.key in held and held[now.key] != _fingerprint(now.values, result)
        for now in rows_in(exported, plan, window)
    )
    return len(held), rerun


def _fingerprint(row: Mapping[str, Any], result: Result) -> int:
    return hash(comparable([row[name] for name in result.values]))
