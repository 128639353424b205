"""A look-up is asked with the times of the commits, and what proves it comes from the topic."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from lockstep.streams.lookup import LookupEnrichment
from lockstep.streams.table_rows import RowVersion, TableRow

from tests.streams.topics import PLAN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CAPTURE_US = 250_000
FOUND = pa.table(
    {
        "client_name": ["Ada", None, None],
        "is_raced": [False, True, False],
        "snapshot": ["700:702:700", "700:702:700", None],
        "wal_lsn": pa.array([5_000, 5_000, None], pa.int64()),
    }
)


def change(
    key: int, op: str, tx_id: int | None, committed_at: datetime, refers_to: tuple | None = None
) -> RowVersion:
    """refers_to: the assignment and the pizzas' ids."""
    committed_us = (committed_at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    values = refers_to and (key, refers_to[0], NOON, refers_to[1])
    row = TableRow((key,), values)
    return RowVersion("orders", op, row, tx_id, 70, committed_us, committed_us + CAPTURE_US)


def test_a_look_up_is_asked_with_the_times_of_the_commits() -> None:
    asked = []

    def look_up(orders: pa.Table) -> pa.Table:
        asked.append(orders)
        return FOUND

    later = NOON + timedelta(microseconds=1)
    changes = [
        change(1, "c", None, NOON, (40, [])),
        change(2, "u", 8, later, (41, [3, None, 3])),
        change(3, "d", 9, later),
    ]
    enriched = LookupEnrichment(PLAN, look_up).enriched(changes)
    (orders,) = asked
    assert orders.to_pydict() == {
        "order_id": [1, 2, 3],
        "op": ["c", "u", "d"],
        "tx_id": [None, 8, 9],
        "committed_at": [NOON, later, later],
    }
    found = {name: values.to_pylist() for name, values in enriched.items()}
    moment = {"snapshot": "700:702:700", "wal_lsn": 5_000}
    assert found.pop("look_up") == [moment, moment, None]
    assert found == FOUND.select(["client_name", "is_raced"]).to_pydict()
