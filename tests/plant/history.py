"""A history of the plant made up at random, and what an hourly run and a stream make of it.

All is computed here in plain Python from the list of transactions: the hourly table's rows as the
cut's snapshot sees them, the change log with each reading as of its own commit, the source's
history, which keys differ and why, and which transactions explain a drift. Nothing of the product's
is used but the columns of its tables. Names are the plant's logical ones.

Sites have a key of their own, `number`, and are found by `code`, which may change.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from lockstep.model.window import Window

from tests.parity.history import seen_by

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(NOON, NOON + timedelta(hours=1))
COMPARED = ("measured_at", "sensor_name", "city", "amount")
MARKER_LSN = 10**9
SENSORS, SITES = 40, 20
Key = tuple[str, str | int]
Row = dict | None


@dataclass
class Transaction:
    """writes: the rows as it left them, by table and key; None for one that it deleted.

    tx_id None, commit_lsn 0: the initial snapshot.
    """

    tx_id: int | None
    commit_lsn: int
    committed_at: datetime
    writes: dict[Key, Row] = field(default_factory=dict)
    is_seen: bool = True


def result(reading: dict, rows: dict[Key, Row]) -> dict:
    """The query over one state of the tables."""
    sensor = rows.get(("sensor", reading["sensor_id"])) or {}
    site = site_of(sensor, rows)
    factor, value = sensor.get("factor"), reading["value"]
    return {
        "measured_at": reading["taken_at"],
        "sensor_name": sensor.get("name"),
        "city": (rows[site] if site else {}).get("city"),
        "amount": None if None in (factor, value) else value * factor,
    }


def site_of(sensor: dict, rows: dict[Key, Row]) -> Key | None:
    code = sensor.get("site_code")
    of_code = [key for key, row in rows.items() if key[0] == "site" and row and row["code"] == code]
    return next(iter(of_code), None) if code is not None else None


def in_window(row: dict) -> bool:
    return WINDOW.start <= row["measured_at"] < WINDOW.end


@dataclass
class History:
    """transactions: in the order of their commits."""

    transactions: list[Transaction]

    @property
    def snapshot(self) -> str:
        """As PostgreSQL writes it."""
        hidden = sorted(t.tx_id for t in self.transactions if not t.is_seen)
        newest = max((t.tx_id for t in self.transactions if t.is_seen and t.tx_id), default=0)
        xmax = min((tx_id for tx_id in hidden if tx_id > newest), default=newest + 1)
        in_progress = [tx_id for tx_id in hidden if tx_id < xmax]
        return f"{min([*in_progress, xmax])}:{xmax}:{','.join(map(str, in_progress))}"

    def state(self, lsn: int | None = None) -> dict[Key, Row]:
        """The rows as of a commit; None: as the cut sees them."""
        found: dict[Key, Row] = {}
        for one in self.transactions:
            if one.is_seen if lsn is None else one.commit_lsn <= lsn:
                found |= one.writes
        return found

    def hourly_rows(self) -> list[dict]:
        rows = self.state()
        results = (
            {"reading_id": key, **result(row, rows)}
            for (table, key), row in rows.items()
            if table == "fact" and row is not None
        )
        return [row for row in results if in_window(row)]

    def change_log(self) -> list[dict]:
        """One row for each reading and transaction, as of its commit."""
        rows: dict[Key, Row] = {}
        log = []
        for one in self.transactions:
            before = {key for key, row in rows.items() if row is not None}
            rows |= one.writes
            for (table, key), row in one.writes.items():
                if table == "fact":
                    op = "d" if row is None else "u" if (table, key) in before else "c"
                    values = dict.fromkeys(COMPARED) if row is None else result(row, rows)
                    log.append(
                        {
                            "reading_id": key,
                            **values,
                            "op": op,
                            "tx_id": one.tx_id,
                            "commit_lsn": one.commit_lsn,
                            "committed_at": one.committed_at,
                        }
                    )
        return log

    def history_rows(self) -> Iterator[dict]:
        """table and row by their logical names; row as Debezium's JSON has it."""
        known: set[Key] = set()
        for one in self.transactions:
            for key, row in one.writes.items():
                yield {
                    "table": key[0],
                    "row_key": json.dumps([key[1]], separators=(",", ":")),
                    "op": "d" if row is None else "u" if key in known else "c",
                    "row": row and {"key": key[1], **row},
                    "tx_id": one.tx_id,
                    "commit_lsn": one.commit_lsn,
                    "committed_at": one.committed_at,
                }
                known.add(key)

    def expected(self) -> dict[str, str]:
        """The class of each reading of the window that differs, when neither side is at fault."""
        hourly = {row["reading_id"]: row for row in self.hourly_rows()}
        seen, after = self._last_changes()
        expected = {}
        for key in hourly.keys() | after.keys():
            if key not in hourly:
                if after[key]["op"] != "d" and in_window(after[key]):
                    expected[key] = "changed_after_cut"
            elif any(hourly[key][name] != seen[key][name] for name in COMPARED):
                expected[key] = "dimension_drift"
            elif key in after:
                expected[key] = "changed_after_cut"
        return expected

    def corrected(self) -> list[str]:
        """Readings of the window, unlike after each of the last two changes that the cut sees."""
        found = []
        hourly = {row["reading_id"] for row in self.hourly_rows()}
        seen = {one.commit_lsn for one in self.transactions if one.is_seen}
        log = [change for change in self.change_log() if change["commit_lsn"] in seen]
        for key in sorted(hourly):
            amounts = [change["amount"] for change in log if change["reading_id"] == key]
            now = next(row["amount"] for row in self.hourly_rows() if row["reading_id"] == key)
            if len(amounts) > 1 and amounts[-2] != now:
                found.append(key)
        return found

    def causes(self, key: str, column: str) -> set[int]:
        """The transactions that explain a drift of a column, by what the query reads for it.

        A site that is another one at the other point counts by its code, or when it came or went.
        """
        lsn = self._last_changes()[0][key]["commit_lsn"]
        then, cut = self.state(lsn), self.state()
        sensor = "sensor", cut["fact", key]["sensor_id"]
        read = {"sensor_name": "name", "amount": "factor", "city": "site_code"}[column]
        found = {self._last_change(sensor, lsn, name) for name in (read, None)}
        sites = site_of(then.get(sensor) or {}, then), site_of(cut.get(sensor) or {}, cut)
        for site in {*sites} - {None} if column == "city" else ():
            is_there_twice = then.get(site) is not None and cut.get(site) is not None
            found.add(self._last_change(site, lsn, "code"))
            if sites[0] == sites[1] or not is_there_twice:
                found.add(self._last_change(site, lsn, "city"))
        return found - {None}

    def _last_change(self, key: Key, lsn: int, column: str | None) -> int | None:
        """Which transaction gave a row the last value that differs; column None: its presence."""
        writing = [one for one in self.transactions if key in one.writes]
        of_commit = [one for one in writing if one.commit_lsn <= lsn]
        of_cut = [one for one in writing if one.is_seen]
        first, last = sorted((len(of_commit), len(of_cut)))

        def value(count: int) -> object:
            row = writing[count - 1].writes[key] if count else None
            return row is not None if column is None else (row or {}).get(column)

        if value(first) == value(last):
            return None
        changing = (n for n in range(last, first, -1) if value(n) != value(n - 1))
        return writing[next(changing) - 1].tx_id

    def _last_changes(self) -> tuple[dict[str, dict], dict[str, dict]]:
        """Of each reading the last change that the cut sees, and the last that it does not see."""
        seen_lsns = {one.commit_lsn for one in self.transactions if one.is_seen}
        seen: dict[str, dict] = {}
        after: dict[str, dict] = {}
        for change in self.change_log():
            side = seen if change["commit_lsn"] in seen_lsns else after
            side[change["reading_id"]] = change
        return seen, after


class Works:
    """Makes transactions up: readings, and now and then changes of what they refer to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows: dict[Key, Row] = {}
        self.transactions: list[Transaction] = []
        self.sensors = [self.uuid() for _ in range(SENSORS)]
        self._ids = list(range(2**33, 2**33 + 100_000))
        filled: dict[Key, Row] = {("site", n): self._site(n) for n in range(1, SITES + 1)}
        filled |= {("sensor", key): self._sensor() for key in self.sensors[:-1]}
        filled |= dict(self._reading() for _ in range(5))
        self.commit(filled, of_snapshot=True)

    def work(self, transactions: int) -> None:
        """So many transactions."""
        for _ in range(transactions):
            self.commit(dict(self._work()))

    def cut(self, seen: Iterable[Transaction] = (), hidden: Iterable[Transaction] = ()) -> History:
        """The history so far, of which the cut does not see the last transactions, and others.

        It sees the ones in `seen` whatever their place, and none of those in `hidden`.
        """
        last = len(self.transactions) - self.rng.randint(3, 12)
        known = frozenset({0, *(one.commit_lsn for one in seen)})
        found = seen_by(self.rng, self.transactions, last, known)
        found -= {one.commit_lsn for one in hidden}
        for one in self.transactions:
            one.is_seen = one.commit_lsn in found
        return History(self.transactions)

    def commit(self, writes: dict[Key, Row], *, of_snapshot: bool = False) -> Transaction:
        """The ids of transactions follow the order of the commits roughly only."""
        self.rows |= writes
        number = len(self.transactions)
        one = Transaction(
            tx_id=None if of_snapshot else self._ids.pop(self.rng.randint(0, 6)),
            commit_lsn=0 if of_snapshot else 1_000 + number * 8,
            committed_at=NOON + timedelta(seconds=number),
            writes=writes,
        )
        self.transactions.append(one)
        return one

    def _work(self) -> list[tuple[Key, Row]]:
        readings = [
            key
            for key, row in self.rows.items()
            if key[0] == "fact" and row and row["sensor_id"] in self.sensors
        ]
        some_reading, sensor = self.rng.choice(readings), self.rng.choice(self.sensors)
        number = self.rng.randint(1, SITES)
        kinds = {
            "reading": 12,
            "corrected": 2,
            "deleted": 1,
            "renamed": 2,
            "moved": 2,
            "city": 2,
            "code": 1,
            "sensor gone or back": 1,
            "site gone or back": 1,
            "reading and factor": 2,
        }
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        works = {
            "corrected": lambda: [
                (some_reading, {**self.rows[some_reading], "value": self.number(12)})
            ],
            "deleted": lambda: [(some_reading, None)],
            "renamed": lambda: self._updated("sensor", sensor, name=self.text()),
            "moved": lambda: self._updated("sensor", sensor, site_code=self._code()),
            "city": lambda: self._updated("site", number, city=self.text()),
            "code": lambda: self._updated("site", number, code=self._code_of(number)),
            "sensor gone or back": lambda: [self._gone_or_back(("sensor", sensor), self._sensor())],
            "site gone or back": lambda: [self._gone_or_back(("site", number), self._site(number))],
            "reading and factor": lambda: [
                self._reading(),
                *self._updated("sensor", sensor, factor=self.number(6)),
            ],
            "reading": lambda: [self._reading() for _ in range(self.rng.choice((1, 1, 2)))],
        }
        return works[kind]()

    def _gone_or_back(self, key: Key, row: dict) -> tuple[Key, Row]:
        return key, row if self.rows.get(key) is None else None

    def _code_of(self, number: int) -> str:
        return f"code {number}.{self.rng.randint(1, 2)}"

    def _updated(self, table: str, key: str | int, **values: object) -> list[tuple[Key, Row]]:
        """One that is gone comes back instead."""
        fresh = self._sensor() if table == "sensor" else self._site(key)
        row = self.rows.get((table, key))
        return [((table, key), {**row, **values} if row else fresh)]

    def _reading(self) -> tuple[Key, Row]:
        seconds = self.rng.randint(-600, 4199)
        reading = {
            "sensor_id": self.rng.choice(self.sensors),
            "value": self.rng.choice((self.number(12), self.number(12), None)),
            "taken_at": NOON + timedelta(seconds=seconds, microseconds=self.rng.randint(0, 1)),
        }
        return ("fact", self.uuid()), reading

    def _sensor(self) -> dict:
        return {
            "serial": self.rng.randint(1, 10**6),
            "name": self.text(),
            "factor": self.number(6),
            "site_code": self._code(),
        }

    def _site(self, number: int) -> dict:
        return {"code": f"code {number}.1", "city": self.text()}

    def _code(self) -> str | None:
        """That of a site, or one that no site has, or none."""
        number = self.rng.randint(1, SITES)
        site = self.rows.get(("site", number)) or self._site(number)
        return self.rng.choice((*[site["code"]] * 8, f"code {number}.3", None))

    def number(self, precision: int) -> Decimal:
        return Decimal(self.rng.randint(-(10 ** min(precision, 7)) + 1, 10**6 - 1)) / 1000

    def text(self) -> str:
        return f"“{self.rng.randrange(10**6)}” [b]'`"

    def uuid(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128)))
