"""Records of the change topic as Debezium writes them, by hand."""

import json
from datetime import UTC, datetime, timedelta

from pizzeria.names import OUTBOX

NOON = datetime(2026, 1, 1, 12, 20, tzinfo=UTC)
SNAPSHOT = [
    json.dumps({"id": "1f", "type": kind, "aggregate_type": "Initial Snapshot"}).encode()
    for kind in ("STARTED", "COMPLETED")
]


def committed_at(tx: int) -> datetime:
    return NOON + timedelta(seconds=tx)


def _us(tx: int) -> int:
    return round(committed_at(tx).timestamp() * 1e6)


def change(tx: int, number: int, table: str, after: dict) -> bytes:
    """An insert."""
    event = {
        "op": "c",
        "source": {"table": table, "ts_us": _us(tx), "txId": tx, "lsn": 5},
        "transaction": {"id": f"{tx}:5", "total_order": number, "data_collection_order": 1},
        "before": None,
        "after": after,
        "ts_us": _us(tx),
    }
    return json.dumps(event).encode()


def transaction(tx: int, *changes: tuple[str, dict]) -> list[bytes]:
    """BEGIN, inserts (a table and a row each), and END; it commits at LSN 10 * tx."""
    counts: dict[str, int] = {}
    for table, _ in changes:
        counts[table] = counts.get(table, 0) + 1
    end = {
        "status": "END",
        "id": f"{tx}:{tx * 10}",
        "event_count": len(changes),
        "data_collections": [
            {"data_collection": f"public.{table}", "event_count": count}
            for table, count in counts.items()
        ],
        "ts_ms": _us(tx) // 1000,
    }
    return [
        json.dumps({"status": "BEGIN", "id": f"{tx}:{tx * 10}"}).encode(),
        *(change(tx, number, *one) for number, one in enumerate(changes, 1)),
        json.dumps(end).encode(),
    ]


def outbox_row(order_id: int) -> dict:
    order = {"op": "c", "order_id": order_id, "order_time": NOON.isoformat()}
    order |= {"client_name": "Anna", "table_name": None, "pizzas": []}
    return {"id": order_id, "order_id": order_id, "op": "c", "payload": json.dumps(order)}


def order(order_id: int, *others: str) -> list[bytes]:
    """The order's own transaction, of its id, with a row for each of other tables."""
    return transaction(
        order_id, (OUTBOX, outbox_row(order_id)), *((table, {"id": 5}) for table in others)
    )
