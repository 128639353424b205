"""Random transactions of the plant as Debezium writes them, and what they leave, in plain Python.

Rows come, change, go and come again; a table is truncated; large values are left out of updates;
references lead to rows that are not there.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from uuid import UUID

from tests.plant.project import Plant

LEFT_OUT = "__debezium_unavailable_value"
SNAPSHOT = [
    {"id": "1f", "type": kind, "aggregate_type": "Initial Snapshot"}
    for kind in ("STARTED", "COMPLETED")
]
SENSORS, SITES, FACTS = 6, 3, 12
TIME = "2026-01-01T12:00:00Z"
TABLES = ("site", "sensor", "fact")
Row = dict[str, object]
State = dict[str, dict[str, Row]]


@dataclass
class Commit:
    """state: every table's rows after the commit, by key. ops: of each row touched, by table."""

    lsn: int
    state: State
    ops: dict[str, dict[str, str]]


@dataclass
class RandomChanges:
    """records: of the change topic, by offset. commits: the snapshot's first, at LSN 0.

    leaves_out: updates leave large values out and the fact is truncated, so that what was before
    is needed.
    """

    names: Plant
    rng: Random
    leaves_out: bool = True
    records: list[bytes] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    _state: State = field(default_factory=lambda: {table: {} for table in TABLES})

    def add(self, transactions: int, *, largest: int = 8) -> None:
        """The snapshot first, if it is not there; then so many transactions."""
        if not self.records:
            self._snapshot()
        for _ in range(transactions):
            self._transaction(self.rng.randint(1, largest))

    def expected(self) -> Iterator[tuple[str, int, str, tuple | None]]:
        """Key, LSN, op and row (sensor's name, city, amount, note) of each fact's version."""
        for commit in self.commits:
            for key, op in commit.ops["fact"].items():
                fact = commit.state["fact"].get(key)
                yield key, commit.lsn, op, None if fact is None else _joined(fact, commit.state)

    def history(self) -> dict[tuple[str, str, int], tuple[str, Row | None]]:
        """Op and row of each version, its columns named, by table, key text and LSN."""
        return {
            (self._table(table), json.dumps([key]), commit.lsn): (
                op,
                self._named(commit.state[table].get(key)),
            )
            for commit in self.commits
            for table, ops in commit.ops.items()
            for key, op in ops.items()
        }

    def column(self, name: str) -> str:
        """The random word of a logical column."""
        return self.names.names.get(name, name)

    def _snapshot(self) -> None:
        self._write(SNAPSHOT[0])
        ops: dict[str, dict[str, str]] = {table: {} for table in TABLES}
        for table, count in (("site", 2), ("sensor", 3), ("fact", 5)):
            for _ in range(count):
                row = self._new(table)
                if row is not None:
                    self._put(table, row)
                    ops[table][_key(table, row)] = "c"
                    self._change(None, 0, "r", table, None, row)
        self._write(SNAPSHOT[1])
        self._commit(0, ops)

    def _transaction(self, size: int) -> None:
        tx = 1000 + len(self.commits)
        self._write({"status": "BEGIN", "id": f"{tx}:{tx * 10}"})
        events: dict[str, dict[str, str]] = {table: {} for table in TABLES}
        counts: dict[str, int] = {}
        for _ in range(size):
            for table, op, key in self._step(tx, sum(counts.values()) + 1):
                for one in [key] if key is not None else self._truncated(table):
                    events[table][one] = events[table].get(one, "") + op
                counts[table] = counts.get(table, 0) + 1
        end = {
            "status": "END",
            "id": f"{tx}:{tx * 10}",
            "event_count": sum(counts.values()),
            "ts_ms": tx,
            "data_collections": [
                {"data_collection": self._table(table), "event_count": count}
                for table, count in counts.items()
            ],
        }
        self._write(end)
        ops = {
            table: {key: _op(history) for key, history in of_table.items()}
            for table, of_table in events.items()
        }
        self._commit(tx * 10, ops)

    def _truncated(self, table: str) -> list[str]:
        """The keys that a TRUNCATE deletes."""
        gone = list(self._state[table])
        self._state[table].clear()
        return gone

    def _step(self, tx: int, number: int) -> Iterator[tuple[str, str, str | None]]:
        table = self.rng.choices(TABLES, (2, 3, 6))[0]
        rows = self._state[table]
        what = self.rng.random()
        if what < 0.06 and (self.leaves_out or table != "fact"):
            self._change(tx, number, "t", table, None, None)
            yield table, "d", None
        elif what < 0.35 or not rows:
            row = self._new(table)
            if row is not None:
                self._put(table, row)
                self._change(tx, number, "c", table, None, row)
                yield table, "c", _key(table, row)
        elif what < 0.55:
            key = self.rng.choice(sorted(rows))
            self._change(tx, number, "d", table, rows.pop(key), None)
            yield table, "d", key
        else:
            key = self.rng.choice(sorted(rows))
            before = rows[key]
            row = {**self._values(table), **{name: before[name] for name in _KEYS[table]}}
            sent = dict(row)
            for name in ("city", "note"):
                if name in row and before[name] is not None and self.leaves_out:
                    row[name], sent[name] = before[name], LEFT_OUT
            self._put(table, row)
            self._change(tx, number, "u", table, None, sent)
            yield table, "u", key

    def _new(self, table: str) -> Row | None:
        """A row with a key that is free; None when none is."""
        free = [key for key in _ALL[table] if key not in self._state[table]]
        if not free:
            return None
        return {**self._values(table), _KEYS[table][0]: self.rng.choice(free)}

    def _values(self, table: str) -> Row:
        rng = self.rng
        if table == "site":
            return {"code": "", "city": rng.choice([None, "Bonn", "Köln", 'a "b"'])}
        if table == "sensor":
            factor = rng.choice([None, "0.500", "2.000", "-1.125"])
            code = rng.choice([None, *_ALL["site"], "nowhere"])
            return {
                "id": "",
                "serial": rng.randint(1, 99),
                "name": f"n{rng.randint(1, 9)}",
                "factor": factor,
                "site_code": code,
            }
        return {
            "id": "",
            "sensor_id": rng.choice(_ALL["sensor"]),
            "value": rng.choice([None, "1.000", "-7.250"]),
            "taken_at": TIME,
            "note": rng.choice([None, "x" * 9, "été"]),
        }

    def _put(self, table: str, row: Row) -> None:
        self._state[table][_key(table, row)] = row

    def _commit(self, lsn: int, ops: dict[str, dict[str, str]]) -> None:
        state = {table: dict(rows) for table, rows in self._state.items()}
        self.commits.append(Commit(lsn, state, ops))

    def _change(
        self,
        tx: int | None,
        number: int,
        op: str,
        table: str,
        before: Row | None,
        after: Row | None,
    ) -> None:
        schema, _, name = self._table(table).partition(".")
        if before is not None:  # of a row with REPLICA IDENTITY DEFAULT the key alone is right
            blank = {
                name: "" if name in ("name", "taken_at") else 0 if name == "serial" else None
                for name in before
            }
            before = {**blank, **{name: before[name] for name in _KEYS[table]}}
        self._write(
            {
                "op": op,
                "source": {"schema": schema, "table": name, "ts_us": tx or 1, "txId": tx},
                "transaction": None if tx is None else {"id": f"{tx}:1", "total_order": number},
                "before": self._named(before),
                "after": self._named(after),
                "ts_us": 2,
            }
        )

    def _named(self, row: Row | None) -> Row | None:
        return None if row is None else {self.column(name): value for name, value in row.items()}

    def _table(self, table: str) -> str:
        schema = "public" if table == "site" else self.names.schema
        return f"{schema}.{getattr(self.names, table)}"

    def _write(self, record: dict) -> None:
        self.records.append(json.dumps(record).encode())


_KEYS = {"site": ("code",), "sensor": ("id",), "fact": ("id",)}
_ALL = {
    "site": [f"S{number}" for number in range(SITES)],
    "sensor": [str(UUID(int=number)) for number in range(SENSORS)],
    "fact": [str(UUID(int=1000 + number)) for number in range(FACTS)],
}


def _op(events: str) -> str:
    """What a transaction did to a row, by the ops of its changes in their order."""
    return "d" if events[-1] == "d" else "c" if events[0] == "c" else "u"


def _key(table: str, row: Row) -> str:
    return str(row[_KEYS[table][0]])


def _joined(fact: Row, state: State) -> tuple:
    sensor = state["sensor"].get(str(fact["sensor_id"]))
    site = sensor and state["site"].get(str(sensor["site_code"]))
    is_known = sensor is not None and None not in (fact["value"], sensor["factor"])
    amount = Decimal(str(fact["value"])) * Decimal(str(sensor["factor"])) if is_known else None
    return sensor and sensor["name"], site and site["city"], amount, fact["note"]
