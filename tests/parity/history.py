"""A database's history made up at random, and what an hourly run and a stream make of it.

Everything is computed here in plain Python from the list of transactions: the hourly table's rows
as the cut's snapshot sees them (of repaired orders: as the repair's does), the change log with each
order as of its own commit, the dimensions' history, and which orders differ and why. Nothing of the
product's SQL is used.
"""

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from lockstep.model.window import Window
from pizzeria.names import CLIENTS, PIZZAS, TABLE_ASSIGNMENT, TABLES

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(NOON, NOON + timedelta(hours=1))
Key = tuple[str, int]
Row = dict[str, object] | None


@dataclass
class Transaction:
    """writes: the rows as it left them, by table and id; None for one that it deleted."""

    tx_id: int
    commit_lsn: int
    committed_at: datetime
    writes: dict[Key, Row] = field(default_factory=dict)
    is_visible: bool = True


@dataclass(frozen=True)
class Repair:
    """visible: commit LSNs of what its snapshot sees. orders: the ids that it merges, and how."""

    visible: frozenset[int]
    orders: dict[int, str]


@dataclass
class History:
    """transactions: in commit order. Those that the cut does not see are marked.

    repairs: the oldest first; each sees all that the cut and those before it see.
    """

    transactions: list[Transaction]
    repairs: list[Repair] = field(default_factory=list)

    @property
    def visible(self) -> frozenset[int]:
        """Commit LSNs of what the hourly run's snapshot sees."""
        return frozenset(t.commit_lsn for t in self.transactions if t.is_visible)

    @property
    def snapshot(self) -> str:
        return self.snapshot_of(self.visible)

    def snapshot_of(self, visible: frozenset[int]) -> str:
        """As PostgreSQL has it: of those that began later the first is xmax, and none is listed."""
        hidden = sorted(t.tx_id for t in self.transactions if t.commit_lsn not in visible)
        newest = max((t.tx_id for t in self.transactions if t.commit_lsn in visible), default=0)
        xmax = min((tx_id for tx_id in hidden if tx_id > newest), default=newest + 1)
        in_progress = [tx_id for tx_id in hidden if tx_id < xmax]
        return f"{min([*in_progress, xmax])}:{xmax}:{','.join(map(str, in_progress))}"

    def at(self, visible: frozenset[int]) -> dict[Key, tuple[Row, Transaction]]:
        """Each row as a snapshot sees it, and the transaction that wrote it."""
        return {
            key: (row, t)
            for t in self.transactions
            if t.commit_lsn in visible
            for key, row in t.writes.items()
        }

    def cut_of(self, order_id: int) -> frozenset[int]:
        """What is seen of an order: by its last repair, or by the hourly run."""
        repairs = [one.visible for one in self.repairs if order_id in one.orders]
        return repairs[-1] if repairs else self.visible

    def batch_rows(self) -> list[dict]:
        """The hourly table's rows of the window."""
        return [
            row
            for visible in {self.visible, *(one.visible for one in self.repairs)}
            for row in self._rows_at(visible)
            if self.cut_of(row["order_id"]) == visible
        ]

    def _rows_at(self, visible: frozenset[int]) -> list[dict]:
        state = self.at(visible)
        rows = {key: row for key, (row, _) in state.items()}
        return [
            {
                "order_id": id_,
                **_enriched(row, rows),
                "origin": {
                    "table_assignment_id": row["table_assignment_id"],
                    "pizza_ids": row["pizzas"],
                    "tx_id": by.tx_id,
                    "committed_at": by.committed_at,
                },
            }
            for (table, id_), (row, by) in state.items()
            if table == "orders" and row is not None and _is_in_window(row)
        ]

    def changed(self, visible: frozenset[int]) -> dict[int, str]:
        """The window's orders that a snapshot sees otherwise than the hourly table, and how."""
        held = {row["order_id"]: row["origin"]["tx_id"] for row in self.batch_rows()}
        seen = {row["order_id"]: row["origin"]["tx_id"] for row in self._rows_at(visible)}
        how = dict.fromkeys(seen.keys() - held.keys(), "new")
        how |= dict.fromkeys(held.keys() - seen.keys(), "cancelled")
        return how | {id_: "updated" for id_ in seen.keys() & held.keys() if seen[id_] != held[id_]}

    def change_log(self) -> list[dict]:
        """One row for each order and transaction, enriched as of its commit."""
        rows: dict[Key, Row] = {}
        log = []
        for transaction in self.transactions:
            known = set(rows)
            rows |= transaction.writes
            for (table, id_), row in transaction.writes.items():
                if table != "orders":
                    continue
                op = "d" if row is None else "u" if (table, id_) in known else "c"
                log.append(
                    {
                        "order_id": id_,
                        **_enriched(row, rows),
                        "op": op,
                        "tx_id": transaction.tx_id,
                        "commit_lsn": transaction.commit_lsn,
                        "is_raced": False,
                        "committed_at": transaction.committed_at,
                    }
                )
        return log

    def looked_up_log(self, rng: random.Random) -> list[dict]:
        """The change log of a look-up that asks up to a dozen transactions after each commit.

        It marks each row that is not as of its commit, and some others.
        """
        return [self.looked_up(change, rng) for change in self.change_log()]

    def looked_up(self, change: dict, rng: random.Random) -> dict:
        """The change as a look-up brings it that sees the database some transactions later."""
        place = self._place(change)
        seen = seen_by(rng, self.transactions, place + rng.choice((0, 1, 1, 2, 12)), frozenset())
        looked_up = change | {"look_up": self.look_up(change, seen)}
        if change["op"] == "d":
            return looked_up | {"look_up": None}
        found = self.enriched_at(seen, change["order_id"])
        is_raced = rng.random() < 0.2 or any(found[name] != change[name] for name in COMPARED)
        return looked_up | found | {"is_raced": is_raced}

    def look_up(self, change: dict, seen: frozenset[int]) -> dict | None:
        """What the change refers to, and the snapshot that sees these commit LSNs."""
        row = self._written(change)
        return row and {
            "table_assignment_id": row["table_assignment_id"],
            "pizza_ids": row["pizzas"],
            "snapshot": self.snapshot_of(seen),
            "wal_lsn": max(seen),
        }

    def enriched_at(self, seen: frozenset[int], order_id: int) -> dict:
        """The order as a snapshot sees it; nulls when it is not there."""
        rows = {key: row for key, (row, _) in self.at(seen).items()}
        return _enriched(rows.get(("orders", order_id)), rows)

    def seen_in(self, snapshot: str) -> frozenset[int]:
        """Commit LSNs of what a snapshot of this history sees."""
        _, xmax, in_progress = snapshot.split(":")
        hidden = set(map(int, filter(None, in_progress.split(","))))
        return frozenset(
            t.commit_lsn for t in self.transactions if t.tx_id < int(xmax) and t.tx_id not in hidden
        )

    def _place(self, change: dict) -> int:
        lsns = [t.commit_lsn for t in self.transactions]
        return lsns.index(change["commit_lsn"])

    def _written(self, change: dict) -> Row:
        return self.transactions[self._place(change)].writes["orders", change["order_id"]]

    def source_history(self) -> list[dict]:
        return [
            {
                "table": f"public.{table}",
                "row_key": f"[{id_}]",
                "op": "d" if row is None else "u",
                "row": None if row is None else json.dumps({"id": id_, **row}, default=str),
                "tx_id": transaction.tx_id,
                "commit_lsn": transaction.commit_lsn,
                "committed_at": transaction.committed_at,
            }
            for transaction in self.transactions
            for (table, id_), row in transaction.writes.items()
        ]

    def expected(self, log: list[dict] | None = None) -> dict[int, str]:
        """Each order of the window that differs, and why, when neither side is at fault.

        log: the stream's; None: with each order as of its own commit. A difference is a race where
        a column that differs is not as of the commit in the stream.
        """
        batch = {row["order_id"]: row for row in self.batch_rows()}
        stream: dict[int, dict] = {}
        after: dict[int, dict] = {}
        for change in log or self.change_log():
            is_seen = change["commit_lsn"] in self.cut_of(change["order_id"])
            side = stream if is_seen else after
            side[change["order_id"]] = change
        of_commit = {(one["order_id"], one["commit_lsn"]): one for one in self.change_log()}
        expected = {}
        for id_ in batch.keys() | after.keys():
            if id_ in batch:
                mine = {name: batch[id_][name] for name in COMPARED}
                theirs = {name: stream[id_][name] for name in COMPARED}
                then = of_commit[id_, stream[id_]["commit_lsn"]]
                if mine != theirs:
                    is_late = any(mine[name] != theirs[name] != then[name] for name in COMPARED)
                    expected[id_] = "lookup_race" if is_late else "dimension_drift"
                elif id_ in after:
                    expected[id_] = "changed_after_cut"
            elif after[id_]["op"] != "d" and _is_in_window(after[id_]):
                expected[id_] = "changed_after_cut"
        return expected


COMPARED = ("order_time", "client_name", "table_name", "pizzas")


def _is_in_window(row: dict) -> bool:
    return row["order_time"] is not None and WINDOW.start <= row["order_time"] < WINDOW.end


def _enriched(order: Row, rows: dict[Key, Row]) -> dict:
    if order is None:
        return dict.fromkeys(COMPARED)
    seat = rows.get((TABLE_ASSIGNMENT, order["table_assignment_id"])) or {}
    client = rows.get((CLIENTS, seat.get("client_id"))) or {}
    table = rows.get((TABLES, seat.get("table_id"))) or {}
    menu = [rows.get((PIZZAS, id_)) or {} for id_ in order["pizzas"]]
    return {
        "order_time": order["order_time"],
        "client_name": client.get("name"),
        "table_name": table.get("name"),
        "pizzas": [{"pizza": item.get("name"), "price": item.get("price")} for item in menu],
    }


class Shop:
    """Makes transactions up: orders, and now and then changes of what they refer to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows: dict[Key, Row] = {}
        self.transactions: list[Transaction] = []
        self._fill()

    def evening(self, transactions: int) -> History:
        """A history of so many transactions, the last of which the cut does not see."""
        for _ in range(transactions):
            self._commit(dict(self._work()))
        history = History(deepcopy(self.transactions))
        last = len(history.transactions) - self.rng.randint(0, 12)
        seen = seen_by(self.rng, history.transactions, last, frozenset())
        for transaction in history.transactions:
            transaction.is_visible = transaction.commit_lsn in seen
        return history

    def repaired_evening(self, transactions: int) -> History:
        """The same, with an earlier cut, and two repairs of most of what changed since."""
        history = self.evening(transactions)
        last = transactions - transactions // 4
        for transaction in history.transactions[last:]:
            transaction.is_visible = False
        visible = history.visible
        for later in (transactions // 12, transactions // 6):
            visible = seen_by(self.rng, history.transactions, last + later, visible)
            changed = history.changed(visible)
            orders = {id_: how for id_, how in changed.items() if self.rng.random() < 0.7}
            history.repairs.append(Repair(visible, orders))
        return history

    def _fill(self) -> None:
        writes: dict[Key, Row] = {}
        for id_ in range(1, 9):
            writes[PIZZAS, id_] = {"name": f"Pizza {id_}", "price": self._price()}
            writes[TABLES, id_] = {"name": f"Table {id_}"}
            writes[CLIENTS, id_] = {"name": f"Client {id_}"}
        for id_ in range(1, 13):
            writes[TABLE_ASSIGNMENT, id_] = self._seating()
        self._commit(writes)

    def _commit(self, writes: dict[Key, Row]) -> None:
        self.rows |= writes
        number = len(self.transactions) + 1
        jumps = self.rng.choice((1, 1, 1, 3))  # ids do not follow the order of commits
        self.transactions.append(
            Transaction(
                tx_id=2**33 + number * 10 - jumps,
                commit_lsn=1_000 + number * 8,
                committed_at=NOON + timedelta(seconds=number),
                writes=writes,
            )
        )

    def _work(self) -> list[tuple[Key, Row]]:
        orders = [key for key, row in self.rows.items() if key[0] == "orders" and row is not None]
        some_order = self.rng.choice(orders) if orders else None
        kinds = {
            "orders": 11,
            "update": 2 if orders else 0,
            "cancel": 1 if orders else 0,
            "reprice": 2,
            "rename": 2,
            "move": 1,
            "order and reprice": 1,
        }
        match self.rng.choices(list(kinds), list(kinds.values()))[0]:
            case "update":
                writes = [(some_order, {**self.rows[some_order], "pizzas": self._pizzas()})]
            case "cancel":
                writes = [(some_order, None)]
            case "reprice":
                writes = [self._repriced()]
            case "rename":
                writes = [self._renamed()]
            case "move":
                writes = [((TABLE_ASSIGNMENT, self.rng.randint(1, 12)), self._seating())]
            case "order and reprice":
                writes = [self._order(), self._repriced()]
            case _:
                writes = [self._order() for _ in range(self.rng.choice((1, 1, 2)))]
        return writes

    def _order(self) -> tuple[Key, Row]:
        id_ = 1 + max((key[1] for key in self.rows if key[0] == "orders"), default=0)
        minutes = self.rng.randint(-10, 69)
        order = {
            "table_assignment_id": self.rng.randint(1, 13),  # the thirteenth is unknown
            "order_time": NOON + timedelta(minutes=minutes),
            "pizzas": self._pizzas(),
        }
        self.rows["orders", id_] = order
        return ("orders", id_), order

    def _repriced(self) -> tuple[Key, Row]:
        key = (PIZZAS, self.rng.randint(1, 8))
        return key, {**self.rows[key], "price": self._price()}

    def _renamed(self) -> tuple[Key, Row]:
        table, id_ = self.rng.choice((CLIENTS, TABLES, PIZZAS)), self.rng.randint(1, 8)
        name = f"{table} {id_}, {self.rng.randrange(10**6)}"
        return (table, id_), {**self.rows[table, id_], "name": name}

    def _pizzas(self) -> list[int]:
        return [self.rng.randint(1, 9) for _ in range(self.rng.randint(0, 4))]

    def _price(self) -> Decimal:
        return Decimal(self.rng.randint(500, 2500)) / 100

    def _seating(self) -> dict:
        return {"client_id": self.rng.randint(1, 8), "table_id": self.rng.randint(1, 8)}


def seen_by(
    rng: random.Random, transactions: list[Transaction], last: int, known: frozenset[int]
) -> frozenset[int]:
    """What a snapshot sees that was taken before the transaction number `last` was committed.

    Commit LSNs: all that an earlier one has seen (known); of the rest some are still in progress,
    if nothing visible came after.
    """
    touched: set[Key] = set()
    seen: set[int] = set()
    for place, transaction in reversed(list(enumerate(transactions))):
        is_free = not touched & transaction.writes.keys()
        is_hidden = place >= last or (place > 0 and is_free and rng.random() < 0.1)
        if transaction.commit_lsn in known or not is_hidden:
            seen.add(transaction.commit_lsn)
            touched |= transaction.writes.keys()
    return frozenset(seen)
