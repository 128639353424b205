"""A made-up pizzeria: its changes as Debezium writes them, and what every change log must say.

What must be said is worked out here, transaction by transaction; nothing of the product is asked.
"""

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pizzeria.names import (
    CLIENTS,
    ORDERS,
    ORDERS_MESSAGE_PREFIX,
    OUTBOX,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = round(NOON.timestamp() * 1_000_000)
UNKNOWN_TABLE = "suppliers"
LSN_STEP = 10
"""Transaction 7 commits at LSN 70."""
LARGE_ORDERS = 30

Row = dict[str, object]
Content = tuple[object, ...]
"""op, order time, client, table, pizzas of an order; op and values of a row of a dimension."""


@dataclass
class Pizzeria:
    """Its rows by table and id, the records of its change topic, and what is expected of them.

    orders: (order, LSN) to what the order's change log says. rows: the same of the source's
    history, without orders, by (table, id, LSN). unknown: offsets of the changes of an unknown
    table.
    """

    rng: random.Random
    topic: list[bytes] = field(default_factory=list)
    orders: dict[tuple[int, int], Content] = field(default_factory=dict)
    rows: dict[tuple[str, int, int], Content] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tables: dict[str, dict[int, Row]] = {
            table: {} for table in (CLIENTS, TABLES, PIZZAS, TABLE_ASSIGNMENT, ORDERS)
        }
        self._ids = 0
        self._tx = 0
        for kind in ("STARTED", "COMPLETED"):
            notice = {"id": "1f", "type": kind, "aggregate_type": "Initial Snapshot"}
            self.topic.append(json.dumps(notice).encode())
        self._commit(lambda: [self._new_dimension_row() for _ in range(12)])

    def go_on(self) -> None:
        """Some transactions of every kind: small ones, a large one, one with an unknown table."""
        for _ in range(3):
            self._commit(self._some_changes)
        self._commit(lambda: [self._some_changes(), self._touch_unknown()])
        self._commit(lambda: [self._some_changes() for _ in range(LARGE_ORDERS)])
        if self.rng.random() < 1 / 3:
            self._commit(self._truncate_orders)

    # --- what a transaction does -------------------------------------------------------------

    def _some_changes(self) -> None:
        """One of a dimension, and one of an order."""
        if self.rng.random() < 1 / 2:
            self._new_dimension_row()
        else:
            self._change_dimension_row()
        self._change_order()

    def _new_dimension_row(self) -> None:
        self._ids += 1
        id_, name = self._ids, f"name {self.rng.randrange(10**6)}"
        table = self.rng.choice((CLIENTS, TABLES, PIZZAS, TABLE_ASSIGNMENT))
        if table == TABLE_ASSIGNMENT:
            client, seat = self._known(CLIENTS), self._known(TABLES)
            self._put(table, {"id": id_, "client_id": client, "table_id": seat})
        else:
            price = {"price": self._price()} if table == PIZZAS else {}
            self._put(table, {"id": id_, "name": name, **price})

    def _change_dimension_row(self) -> None:
        table = self.rng.choice((CLIENTS, TABLES, PIZZAS))
        if not self._tables[table]:
            return
        row = dict(self._tables[table][self._known(table)])
        if self.rng.random() < 1 / 4:
            self._remove(table, row["id"])
            return
        row["name"] = f"name {self.rng.randrange(10**6)}"
        self._put(table, row)

    def _change_order(self) -> None:
        touched = set(self._touched)
        free = [id_ for id_ in self._tables[ORDERS] if id_ not in touched]
        if free and self.rng.random() < 1 / 2:
            id_ = self.rng.choice(free)
            if self.rng.random() < 1 / 3:
                self._remove(ORDERS, id_)
                return
        else:
            self._ids += 1
            id_ = self._ids
        pizzas = [self._known(PIZZAS) for _ in range(self.rng.randrange(4))]
        at = (NOON + timedelta(minutes=id_)).isoformat()
        seating = self._known(TABLE_ASSIGNMENT)
        row = {"id": id_, "table_assignment_id": seating, "order_time": at, "pizzas": pizzas}
        self._put(ORDERS, row)

    def _truncate_orders(self) -> None:
        self._changes.append((ORDERS, "t", None, None))
        for id_ in self._tables[ORDERS]:
            self.orders[id_, self._lsn] = ("d", None, None, None, None)
        self._tables[ORDERS].clear()

    def _touch_unknown(self) -> None:
        self._changes.append((UNKNOWN_TABLE, "c", None, {"id": 1}))

    def _known(self, table: str) -> int:
        """A row's id; where the table is empty one that it never has."""
        return self.rng.choice(list(self._tables[table]) or [0])

    def _price(self) -> str:
        return f"{self.rng.randrange(500, 2000) / 100:.2f}"

    # --- rows, and what is expected of them --------------------------------------------------

    def _put(self, table: str, row: Row) -> None:
        before = self._tables[table].get(row["id"])
        self._tables[table][row["id"]] = row
        self._changes.append((table, "c" if before is None else "u", before, row))

    def _remove(self, table: str, id_: int) -> None:
        self._changes.append((table, "d", self._tables[table].pop(id_), None))

    @property
    def _lsn(self) -> int:
        return self._tx * LSN_STEP

    @property
    def _touched(self) -> dict[int, str]:
        """The transaction's orders, each with what was done to it; an order is changed once."""
        return {
            (after or before)["id"]: op
            for table, op, before, after in self._changes
            if table == ORDERS and op != "t"
        }

    def _commit(self, work: Callable[[], object]) -> None:
        self._tx += 1
        self._changes: list[tuple[str, str, Row | None, Row | None]] = []
        work()
        self._expect_rows()
        for order_id, op in self._touched.items():
            self._publish(order_id, op)
        self._write()

    def _expect_rows(self) -> None:
        born = set()
        for table, op, before, after in self._changes:
            if table in (ORDERS, UNKNOWN_TABLE):
                continue
            row = after or before
            key = (table, row["id"], self._lsn)
            born |= {key} if op == "c" else set()
            shown = "c" if op == "u" and key in born else op
            names = ("name", "price", "client_id", "table_id")
            values = (None if op == "d" else row.get(name) for name in names)
            self.rows[key] = (shown, *values)

    def _publish(self, order_id: int, op: str) -> None:
        """The order as it is now, in the outbox and in a message."""
        payload: Row = {"op": op, "order_id": order_id}
        content: Content = (op, None, None, None, None)
        if op != "d":
            order = self._tables[ORDERS][order_id]
            shown = self._shown(order)
            payload |= dict(zip(("client_name", "table_name", "pizzas"), shown, strict=True))
            payload["order_time"] = order["order_time"]
            pizzas = [(item["pizza"], item["price"]) for item in shown[2]]
            content = (op, order["order_time"], *shown[:2], pizzas)
        self.orders[order_id, self._lsn] = content
        text = json.dumps(payload)
        row = {"id": len(self.topic), "order_id": order_id, "op": op, "payload": text}
        self._changes += [(OUTBOX, "c", None, row), ("", "m", None, {"text": text})]

    def _shown(self, order: Row) -> tuple[object, object, list[Row]]:
        seating = self._tables[TABLE_ASSIGNMENT].get(order["table_assignment_id"], {})
        client = self._tables[CLIENTS].get(seating.get("client_id"), {})
        table = self._tables[TABLES].get(seating.get("table_id"), {})
        menu = [self._tables[PIZZAS].get(id_, {}) for id_ in order["pizzas"]]
        pizzas = [{"pizza": one.get("name"), "price": one.get("price")} for one in menu]
        return client.get("name"), table.get("name"), pizzas

    # --- as Debezium writes it ---------------------------------------------------------------

    def _write(self) -> None:
        counts: dict[str, int] = {}
        self.topic.append(self._boundary("BEGIN"))
        for number, (table, op, before, after) in enumerate(self._changes, start=1):
            name = f"public.{table}" if table else "LogicalDecodingMessageId@5f"
            counts[name] = counts.get(name, 0) + 1
            if table == UNKNOWN_TABLE:
                self.unknown.append(len(self.topic))
            self.topic.append(self._event(number, table, op, before, after))
        self.topic.append(self._boundary("END", counts))

    def _event(
        self, number: int, table: str, op: str, before: Row | None, after: Row | None
    ) -> bytes:
        event: Row = {
            "op": op,
            "source": {"table": table, "ts_us": self.committed_us, "txId": self._tx, "lsn": number},
            "transaction": {"id": f"{self._tx}:{number}", "total_order": number},
            "ts_us": self.committed_us + 5,
        }
        if op == "m":
            content = base64.b64encode(after["text"].encode()).decode()
            event["message"] = {"prefix": ORDERS_MESSAGE_PREFIX, "content": content}
        else:
            event |= {"before": before, "after": after}
        return json.dumps(event).encode()

    @property
    def committed_us(self) -> int:
        return NOON_US + self._tx * 1000

    def _boundary(self, status: str, counts: dict[str, int] | None = None) -> bytes:
        record: Row = {"status": status, "id": f"{self._tx}:{self._lsn}", "ts_ms": 3}
        if counts is not None:
            listed = [{"data_collection": name, "event_count": n} for name, n in counts.items()]
            record |= {"event_count": sum(counts.values()), "data_collections": listed}
        return json.dumps(record).encode()


def as_content(row: Row) -> Content:
    """A row of a change log, in the form of Pizzeria.orders."""
    at, pizzas = row["order_time"], row["pizzas"]
    return (
        row["op"],
        at and at.astimezone(UTC).isoformat(),
        row["client_name"],
        row["table_name"],
        pizzas and [(one["pizza"], _text(one["price"])) for one in pizzas],
    )


def as_row(order_id: int, content: Content) -> Row:
    """The same the other way round, as a look-up finds it that no other change has overtaken."""
    _, at, client, table, pizzas = content
    return {
        "order_id": order_id,
        "order_time": at and datetime.fromisoformat(at),
        "client_name": client,
        "table_name": table,
        "pizzas": pizzas
        and [{"pizza": name, "price": price and Decimal(price)} for name, price in pizzas],
        "is_raced": False,
    }


def as_version(row: Row) -> tuple[tuple[str, int, int], Content]:
    """A row of the source's history, in the form of an item of Pizzeria.rows."""
    values = json.loads(row["row"] or "{}")
    key = (row["table"].removeprefix("public."), *json.loads(row["row_key"]), row["commit_lsn"])
    names = ("name", "price", "client_id", "table_id")
    return key, (row["op"], *(values.get(name) for name in names))


def _text(price: Decimal | None) -> str | None:
    return None if price is None else str(price)
