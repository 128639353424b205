"""One order through every table over time: who says what of it after each transaction. No Spark."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.model.modes import StreamMode
from lockstep.pizzeria import ORDERS_ENRICHED_BATCH, change_log_table
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query

BATCH = "batch"
_VALUES = ("order_time", "client_name", "table_name", "pizzas")


@dataclass(frozen=True)
class OrderState:
    """The state of an order after one transaction, as some tables have it alike.

    modes: the tables; those marked by the look-up as raced have a `*`.
    op: c, u, d; "" for the hourly table, which has states only.
    values: order_time, client_name, table_name, pizzas; None for a delete.
    """

    modes: tuple[str, ...]
    op: str
    values: dict | None


@dataclass(frozen=True)
class Moment:
    """A transaction that changed the order, or an hourly run's cut.

    commit_lsn: its place in the database's history; of a cut, the marker's. what: the transaction's
    id, the initial snapshot, or the run.
    """

    commit_lsn: int
    at: datetime | None
    what: str
    states: list[OrderState] = field(default_factory=list)


def story_of(settings: Settings, order_id: int) -> list[Moment]:
    """Every change of the order that any table has, in commit order, and the hourly run's row.

    Raises LakehouseError when no table has the order.
    """
    rows = sorted(_rows(settings, order_id), key=lambda row: (row["commit_lsn"], row["what"]))
    if not rows:
        raise LakehouseError(
            f"no table of {settings.lakehouse_uri} has the order {order_id}: `lockstep parity "
            "status` shows what was ever compared"
        )
    return [
        Moment(lsn, at[0]["at"], what, list(_states(at)))
        for (lsn, what), same in groupby(rows, key=lambda row: (row["commit_lsn"], row["what"]))
        for at in [list(same)]
    ]


def _states(rows: list[dict]) -> Iterator[OrderState]:
    """Tables that have the same state, together."""
    alike: dict[str, tuple[list[str], dict]] = {}
    for row in rows:
        key = repr((row["op"], row["values"]))
        alike.setdefault(key, ([], row))[0].append(row["mode"])
    for modes, row in alike.values():
        yield OrderState(tuple(modes), row["op"], row["values"])


def _rows(settings: Settings, order_id: int) -> Iterator[dict]:
    for mode in StreamMode:
        for row in _of_order(settings, change_log_table(mode), order_id):
            is_snapshot = row["commit_lsn"] == SNAPSHOT_COMMIT_LSN
            yield {
                "mode": f"{mode}*" if row["is_raced"] else str(mode),
                "commit_lsn": row["commit_lsn"],
                "at": row["committed_at"],
                "what": "initial snapshot" if is_snapshot else f"transaction {row['tx_id']}",
                "op": row["op"],
                "values": None if row["op"] == "d" else {name: row[name] for name in _VALUES},
            }
    for row in _of_order(settings, ORDERS_ENRICHED_BATCH, order_id):
        yield {
            "mode": BATCH,
            "commit_lsn": row["cut_lsn"],
            "at": None,
            "what": f"cut of run {row['run_id']}",
            "op": "",
            "values": {name: row[name] for name in _VALUES},
        }


def _of_order(settings: Settings, table: str, order_id: int) -> list[dict]:
    uri = settings.table_uri(table)
    if not DeltaTable.is_deltatable(uri):
        return []
    query = f"SELECT * FROM orders_of WHERE order_id = {int(order_id)}"  # noqa: S608 - a number
    return run_query(query, {"orders_of": open_table(uri)}).read_all().to_pylist()
