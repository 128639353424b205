"""A look-up is asked with what the database says of a change: its commit is when it happened."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from lockstep.settings import Settings
from lockstep.streams import lookup
from lockstep.streams.fold import OrderChange
from lockstep.streams.lookup import LookupEnrichment

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CAPTURE_US = 250_000
FOUND = pa.table({"client_name": ["Ada", None], "is_raced": [False, True]})


def change(order_id: int, op: str, tx_id: int | None, committed_at: datetime) -> OrderChange:
    committed_us = (committed_at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    return OrderChange(order_id, op, None, tx_id, 70, committed_us, committed_us + CAPTURE_US)


def test_a_look_up_is_asked_with_the_times_of_the_commits(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def look_up_orders(_spark: object, _settings: Settings, orders: pa.Table) -> pa.Table:
        asked.append(orders)
        return FOUND

    monkeypatch.setattr(lookup, "look_up_orders", look_up_orders)
    later = NOON + timedelta(microseconds=1)
    changes = [change(1, "c", None, NOON), change(2, "u", 8, later)]
    enriched = LookupEnrichment(None, home).enriched(changes)
    (orders,) = asked
    assert orders.to_pydict() == {
        "order_id": [1, 2],
        "op": ["c", "u"],
        "tx_id": [None, 8],
        "committed_at": [NOON, later],
    }
    assert {name: values.to_pylist() for name, values in enriched.items()} == FOUND.to_pydict()
