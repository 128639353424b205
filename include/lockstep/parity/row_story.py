"""One row through every table over time: who says what of it after each transaction. No Spark."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.pipeline.modes import STREAM_MODES
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query

BATCH = "batch"


@dataclass(frozen=True)
class RowState:
    """The state of a row after one transaction, as some tables have it alike.

    modes: the tables; those marked by the look-up as raced have a `*`.
    op: c, u, d; "" for the hourly table, which has states only.
    values: of the columns that are not in the key; None for a delete.
    """

    modes: tuple[str, ...]
    op: str
    values: dict | None


@dataclass(frozen=True)
class Moment:
    """A transaction that changed the row, or an hourly run's cut.

    commit_lsn: its place in the database's history; of a cut, the marker's. what: the transaction's
    id, the initial snapshot, or the run.
    """

    commit_lsn: int
    at: datetime | None
    what: str
    states: list[RowState] = field(default_factory=list)


def story_of(settings: Settings, plan: Plan, key: Key) -> list[Moment]:
    """Every change of the row that any table has, in commit order, and the hourly run's row.

    Raises LakehouseError when no table has the row.
    """
    rows = sorted(_rows(settings, plan, key), key=lambda row: (row["commit_lsn"], row["what"]))
    if not rows:
        raise LakehouseError(
            f"no table of {settings.lakehouse_uri} has the row {plan.row_keys.text(key)}: "
            "`lockstep parity status` shows what was ever compared"
        )
    return [
        Moment(lsn, at[0]["at"], what, list(_states(at)))
        for (lsn, what), same in groupby(rows, key=lambda row: (row["commit_lsn"], row["what"]))
        for at in [list(same)]
    ]


def _states(rows: list[dict]) -> Iterator[RowState]:
    """Tables that have the same state, together."""
    alike: dict[str, tuple[list[str], dict]] = {}
    for row in rows:
        key = repr((row["op"], row["values"]))
        alike.setdefault(key, ([], row))[0].append(row["mode"])
    for modes, row in alike.values():
        yield RowState(tuple(modes), row["op"], row["values"])


def _rows(settings: Settings, plan: Plan, key: Key) -> Iterator[dict]:
    names = plan.result.values
    for mode in STREAM_MODES:
        for row in _of_key(settings, plan.change_log(mode), plan, key):
            is_snapshot = row["tx_id"] is None
            yield {
                "mode": f"{mode}*" if row["is_raced"] else str(mode),
                "commit_lsn": row["commit_lsn"],
                "at": row["committed_at"],
                "what": "snapshot" if is_snapshot else f"transaction {row['tx_id']}",
                "op": row["op"],
                "values": None if row["op"] == "d" else {name: row[name] for name in names},
            }
    for row in _of_key(settings, plan.hourly_table, plan, key):
        yield {
            "mode": BATCH,
            "commit_lsn": row["cut_lsn"],
            "at": None,
            "what": f"cut of run {row['run_id']}",
            "op": "",
            "values": {name: row[name] for name in names},
        }


def _of_key(settings: Settings, table: str, plan: Plan, key: Key) -> list[dict]:
    uri = settings.table_uri(table)
    if not DeltaTable.is_deltatable(uri):
        return []
    query = f"SELECT * FROM rows_of WHERE {plan.row_keys.condition([key])}"  # noqa: S608
    return run_query(query, {"rows_of": open_table(uri)}).read_all().to_pylist()
