"""Both sides of a window as tables, and faults planted in them; what a test asks is elsewhere."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.ledger.entries import Difference
from lockstep.model.modes import ReadMode
from lockstep.parity import comparison, evidence
from lockstep.parity.comparison import Compared, OtherModes
from lockstep.parity.readiness import Readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import HISTORY_COLUMNS
from lockstep.settings import Settings
from pizzeria.names import MANIFEST
from pyspark.sql import SparkSession

from tests.parity.history import COMPARED, WINDOW, History, Shop, seen_by
from tests.pizzeria_tables import CHANGE_LOG_COLUMNS, change_log_columns
from tests.project import PROJECT_DIR

PLAN = plan_named(PROJECT_DIR, MANIFEST)
ROUNDS = 4
FAULTS_OF_A_ROUND = 60

ORIGIN = pa.struct({"tx_id": pa.int64(), "committed_at": pa.timestamp("us", "UTC")})
LOG = arrow_schema(CHANGE_LOG_COLUMNS)
BATCH = pa.schema(
    [
        *(LOG.field(name) for name in PLAN.result.columns),
        ("origin", ORIGIN),
        ("window_date", pa.date32()),
    ]
)


class Tables:
    """Both sides of a history as Delta tables, to be tampered with before they are written."""

    def __init__(self, history: History, folder: Path) -> None:
        self.history = history
        self.batch = history.batch_rows()
        self.log = history.change_log()
        self.source = history.source_history()
        self.settings = Settings(home=folder)

    def compare(
        self, spark: SparkSession, mode: Mode = Mode.TEMPORAL, others: OtherModes | None = None
    ) -> Compared:
        """others: of earlier comparisons over the same source."""
        self._write(mode)
        return comparison.compare(spark, self.sides(mode), others or OtherModes())

    def sides(self, mode: Mode) -> Sides:
        return Sides(self.settings, PLAN, WINDOW, mode, self.ready())

    def differences(self, spark: SparkSession, mode: Mode = Mode.TEMPORAL) -> list[Difference]:
        return evidence.differences(PLAN, self.compare(spark, mode).differing, {})

    def ready(self) -> Readiness:
        taken_at = WINDOW.end + timedelta(minutes=5)
        cut = Cut("the run", self.history.snapshot, 10**9, taken_at)
        run = RunCommit(WINDOW, ReadMode.VIEW, len(self.batch), cut)
        repairs = [
            RepairCommit(
                window=WINDOW,
                repaired_run_id="the run",
                row_keys=tuple(repair.orders),
                orders_after=len(self.batch),
                approved_by="a test",
                cut=Cut("a repair", self.history.snapshot_of(repair.visible), 10**9, taken_at),
            )
            for repair in self.history.repairs
        ]
        return Readiness(
            run=run,
            repairs=tuple(repairs),
            batch_version=0,
            stream_version=0,
            frontier=10**9,
            verdict=None,
            reason="",
        )

    def _write(self, mode: Mode) -> None:
        batch = [row | {"window_date": row["order_time"].date()} for row in self.batch]
        self._table(PLAN.hourly_table, batch, BATCH)
        self._table(PLAN.change_log(mode), self.log, arrow_schema(change_log_columns(mode)))
        self._table(PLAN.history, self.source, arrow_schema(HISTORY_COLUMNS))

    def _table(self, name: str, rows: list[dict], schema: pa.Schema) -> None:
        content = pa.Table.from_pylist(rows, schema)
        write_deltalake(self.settings.table_uri(name), content, mode="ignore")

    def live(self) -> list[dict]:
        """Changes that are the only one of an order which both sides have in the window."""
        of_order = Counter(change["order_id"] for change in self.log)
        batch = {row["order_id"] for row in self.batch}
        return [c for c in self.log if of_order[c["order_id"]] == 1 and c["order_id"] in batch]

    def batch_row(self, change: dict) -> dict:
        return next(row for row in self.batch if row["order_id"] == change["order_id"])

    def versions(self, table: str, id_: int) -> list[dict]:
        """A row's versions in the source's history."""
        place = (table, f"[{id_}]")
        return [row for row in self.source if (row["table"], row["row_key"]) == place]

    def seen(self, change: dict) -> frozenset[int]:
        """Commit LSNs of what the change's look-up saw."""
        return self.history.seen_in(change["look_up"]["snapshot"])


def looked_up(history: History, folder: Path, rng: random.Random) -> Tables:
    """A history's tables, the stream's as the look-up leaves it."""
    tables = Tables(history, folder)
    tables.log = history.looked_up_log(rng)
    return tables


Fault = Callable[[Tables, dict], str | None]
"""Does something to an order's only change; says in which class it is to be found."""


def row_lost(tables: Tables, change: dict) -> str:
    tables.log.remove(change)
    return "missing_in_stream"


def row_doubled(tables: Tables, change: dict) -> str:
    tables.log.append(dict(change))
    return "duplicate_in_stream"


def price_altered(_: Tables, change: dict) -> str | None:
    if not change["pizzas"] or change["pizzas"][0]["price"] is None:
        return None
    first, *others = change["pizzas"]
    change["pizzas"] = [{**first, "price": first["price"] + Decimal("0.01")}, *others]
    return "value_mismatch"


def pizza_dropped(_: Tables, change: dict) -> str | None:
    if not change["pizzas"]:
        return None
    change["pizzas"] = change["pizzas"][:-1]
    return "value_mismatch"


def pizzas_reordered(_: Tables, change: dict) -> str | None:
    turned = change["pizzas"][::-1]
    if turned == change["pizzas"]:
        return None
    change["pizzas"] = turned
    return "value_mismatch"


def pizza_repeated(_: Tables, change: dict) -> str | None:
    if not change["pizzas"]:
        return None
    change["pizzas"] = [*change["pizzas"], change["pizzas"][-1]]
    return "value_mismatch"


def name_null(_: Tables, change: dict) -> str | None:
    if change["client_name"] is None:
        return None
    change["client_name"] = None
    return "value_mismatch"


def other_time(_: Tables, change: dict) -> str:
    change["order_time"] += timedelta(microseconds=1)
    return "value_mismatch"


def raced_without_a_snapshot(_: Tables, change: dict) -> str:
    change |= {"is_raced": True, "table_name": "a table of later"}
    return "value_mismatch"


def raced_with_other_time(_: Tables, change: dict) -> str:
    change |= {"is_raced": True, "order_time": change["order_time"] + timedelta(microseconds=1)}
    return "value_mismatch"


def row_lost_in_batch(tables: Tables, change: dict) -> str:
    tables.batch = [row for row in tables.batch if row["order_id"] != change["order_id"]]
    return "missing_in_batch"


def cancelled_by_no_transaction(tables: Tables, change: dict) -> str:
    gone = dict.fromkeys(("order_time", "client_name", "table_name", "pizzas"))
    # An odd position, which no transaction of the history has.
    tables.log.append(change | gone | {"op": "d", "commit_lsn": change["commit_lsn"] + 1})
    return "missing_in_stream"


FAULTS: list[Fault] = [
    row_lost,
    row_doubled,
    price_altered,
    pizza_dropped,
    pizzas_reordered,
    pizza_repeated,
    name_null,
    other_time,
    raced_without_a_snapshot,
    raced_with_other_time,
    row_lost_in_batch,
    cancelled_by_no_transaction,
]


def never_true(_: Tables, change: dict, __: random.Random) -> dict:
    return change | {"table_name": "a table that never was"}


def planted_in(tables: Tables, change: dict, rng: random.Random) -> tuple[Fault, str]:
    """One of the faults that can be planted in this change, and the class of its difference."""
    for fault in rng.sample(FAULTS, len(FAULTS)):
        found = fault(tables, change)
        if found is not None:
            return fault, found
    raise AssertionError(f"no fault can be planted in {change}")


def of_another_moment(tables: Tables, change: dict, rng: random.Random) -> dict:
    last = len(tables.history.transactions) - rng.randint(0, 20)
    seen = seen_by(rng, tables.history.transactions, last, frozenset())
    return change | tables.history.enriched_at(seen, change["order_id"])


def of_its_commit(tables: Tables, change: dict, _: random.Random) -> dict:
    then = next(c for c in tables.history.change_log() if c["order_id"] == change["order_id"])
    return change | {name: then[name] for name in COMPARED}


def as_in_the_hourly_table_but_for_a_name(
    tables: Tables, change: dict, rng: random.Random
) -> dict | None:
    """What equals the hourly table, too, must be what the look-up saw."""
    batch = tables.batch_row(change)
    name = rng.choice([n for n in COMPARED if batch[n] != change[n]] or ["pizzas"])
    return change | {n: batch[n] for n in COMPARED if n != name}


def gone(_: Tables, change: dict, __: random.Random) -> dict:
    return change | dict.fromkeys(COMPARED)


def of_another_order(tables: Tables, change: dict, rng: random.Random) -> dict:
    """Consistently: what that order refers to, and the names and prices of it."""
    log = tables.history.change_log()
    other = rng.choice([c for c in log if c["op"] != "d"])
    seen = tables.seen(change)
    values = tables.history.enriched_at(seen, other["order_id"])
    look_up = tables.history.look_up(other, seen)
    return change | values | {"order_time": change["order_time"], "look_up": look_up}


def snapshot_of_another_moment(tables: Tables, change: dict, rng: random.Random) -> dict:
    last = len(tables.history.transactions) - rng.randint(0, 20)
    seen = seen_by(rng, tables.history.transactions, last, frozenset())
    return change | {"look_up": tables.history.look_up(change, seen)}


def snapshot_not_kept(_: Tables, change: dict, __: random.Random) -> dict:
    return change | {"look_up": None}


WRONG_LOOK_UPS = [
    never_true,
    of_another_moment,
    of_its_commit,
    as_in_the_hourly_table_but_for_a_name,
    gone,
    of_another_order,
    snapshot_of_another_moment,
    snapshot_not_kept,
]


def is_wrong(tables: Tables, change: dict) -> bool:
    """Whether a raced row differs from the hourly table, and is not what its look-up saw."""
    batch = tables.batch_row(change)
    if all(change[name] == batch[name] for name in COMPARED):
        return False
    if change["look_up"] is None:
        return True
    held = tables.history.enriched_at(tables.seen(change), change["order_id"])
    return any(held[name] != change[name] for name in COMPARED)


def found_in(compared: Compared) -> dict[int, str]:
    return {one.key[0]: one.kind for one in compared.differing}


def some_evening(rng: random.Random, number: int) -> History:
    """Each second one with repairs."""
    shop = Shop(rng.randrange(2**32))
    return shop.repaired_evening(700) if number % 2 else shop.evening(700)
