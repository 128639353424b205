"""What a repair of a window would do, and what running the hour again would do instead.

The database decides which orders changed, and no stream: each order's row there is compared, by the
transaction that wrote it, with the one that the hourly table's row was made of. Never writes.
"""

from dataclasses import dataclass
from string import Template

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lockstep.accounts import Role
from lockstep.cdc.cuts import DatabaseSnapshot, ExportedSnapshot, exported_snapshot
from lockstep.errors import LakehouseError, RepairRefusedError
from lockstep.model.window import Window
from lockstep.pizzeria import ORDERS_ENRICHED_BATCH, PIPELINE, sql_name
from lockstep.project import MARKER, read_project_file
from lockstep.repair.orders import VALUES, ChangedOrder, how_changed
from lockstep.settings import Settings
from lockstep.sources import delta
from lockstep.sources.hourly_runs import WrittenWindow, written_by
from lockstep.sources.postgres import connect
from lockstep.sources.window_orders import order_versions, orders_in

_ROWS_SQL = MARKER / PIPELINE / "hourly_rows.sql"


@dataclass(frozen=True)
class Look:
    """A window in one version of the hourly table and in one snapshot of the database.

    rows: the table's, as hourly_rows.sql has them. changed: the orders that a repair would merge.
    """

    written: WrittenWindow
    rows: pa.Table
    changed: list[ChangedOrder]


@dataclass(frozen=True)
class Plan:
    """What a person decides on.

    others: orders of the window that did not change; others_rerun: those of them that would get
        other values if the hour were run again now, for names and prices have changed since.
    """

    window: Window
    run_id: str
    changed: list[ChangedOrder]
    others: int
    others_rerun: int

    @property
    def digests(self) -> dict[int, str]:
        """What an approval of the whole plan approves."""
        return {one.order_id: one.digest for one in self.changed}


def plan_repair(settings: Settings, window: Window) -> Plan:
    """Find the orders that changed after the cut.

    Raises as `look` does, and LakehouseError when there is no table.
    """
    # The table before the snapshot: what a run may write in between, this snapshot would not see.
    table = delta.open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    with (
        connect(settings, Role.BATCH_READER) as connection,
        exported_snapshot(connection) as exported,
    ):
        seen = look(table, window, exported)
        others, rerun = 0, 0
        if seen.changed:
            others, rerun = _others(seen, window, exported)
    return Plan(window, seen.written.run.cut.run_id, seen.changed, others, rerun)


def look(table: DeltaTable, window: Window, exported: ExportedSnapshot) -> Look:
    """Read both sides; of the database whole rows of changed orders only.

    Raises LakehouseError when the table cannot be read, WindowNotWrittenError when no run wrote
    exactly this window, RepairRefusedError when its rows are not those that its run and its repairs
    left, PostgresUnavailableError when the database hangs up.
    """
    written = written_by(table, window)
    rows = _hourly_rows(table, window)
    _require_sound(rows, written, exported)
    hourly = dict(zip(rows["order_id"].to_pylist(), rows["tx_id"].to_pylist(), strict=True))
    how = how_changed(hourly, order_versions(exported, window))
    before = {id_: _values(rows, place) for place, id_ in enumerate(hourly) if id_ in how}
    after = {order.order_id: order for order in orders_in(exported, window, how.keys())}
    changed = [ChangedOrder(id_, how[id_], before.get(id_), after.get(id_)) for id_ in how]
    return Look(written, rows, changed)


def _require_sound(rows: pa.Table, written: WrittenWindow, exported: ExportedSnapshot) -> None:
    """A repair builds upon the run's rows; where those are not sound, only a new run helps."""
    window, remedy = written.run.window, "`lockstep batch run` writes the window again"
    if rows.num_rows != written.rows or pc.count_distinct(rows["order_id"]).as_py() < len(rows):
        raise RepairRefusedError(
            f"the hourly table has {rows.num_rows:,} rows of {window}, and its last run or repair "
            f"left {written.rows:,} orders: they were changed by another writer; {remedy}"
        )
    if rows["tx_id"].null_count:
        raise RepairRefusedError(
            f"{rows['tx_id'].null_count:,} rows of {window} do not say which row of the database "
            f"they were made of (an older version wrote them); {remedy}"
        )
    cut = written.last_cut
    if DatabaseSnapshot.parse(exported.snapshot).xmax < DatabaseSnapshot.parse(cut.snapshot).xmax:
        raise RepairRefusedError(
            f"the database (snapshot {exported.snapshot}) is older than what the hourly table was "
            f"made of (snapshot {cut.snapshot}): it is another one, or an old copy; correct "
            "LOCKSTEP_POSTGRES_HOST and _PORT"
        )


def _hourly_rows(table: DeltaTable, window: Window) -> pa.Table:
    sql = Template(read_project_file(_ROWS_SQL)).substitute(
        first_date=window.start.date(),
        last_date=window.end.date(),
        window_start=window.start.isoformat(),
        window_end=window.end.isoformat(),
    )
    try:
        return delta.run_query(sql, {sql_name(ORDERS_ENRICHED_BATCH): table}).read_all()
    except pa.ArrowException as error:
        raise LakehouseError(
            f"the rows of {window} cannot be read from {table.table_uri}: {delta.reason(error)}"
        ) from error


def _values(rows: pa.Table, place: int) -> dict:
    (row,) = rows.select(VALUES).slice(place, 1).to_pylist()
    return row


def _others(seen: Look, window: Window, exported: ExportedSnapshot) -> tuple[int, int]:
    """How many orders did not change, and how many of them would not come out the same today.

    A number for each order is kept, not its values: a window may have a million of them.
    """
    changed = {one.order_id for one in seen.changed}
    held = {
        row["order_id"]: _fingerprint(row)
        for part in seen.rows.to_batches()
        for row in part.to_pylist()
        if row["order_id"] not in changed
    }
    rerun = sum(
        now.order_id in held and held[now.order_id] != _fingerprint(now._asdict())
        for now in orders_in(exported, window)
    )
    return len(held), rerun


def _fingerprint(row: dict) -> int:
    pizzas = tuple((item["pizza"], item["price"]) for item in row["pizzas"])
    return hash((row["order_time"], row["client_name"], row["table_name"], pizzas))
