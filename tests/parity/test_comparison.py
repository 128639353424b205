"""The comparison finds what differs, in the right class, with its evidence, and nothing else."""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.ledger.entries import Difference
from lockstep.ledger.formatting import explanation
from lockstep.model.modes import ReadMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.parity import bindings, comparison, evidence, proof
from lockstep.parity.comparison import Compared
from lockstep.parity.differences import BATCH_ROWS, COMMIT, STREAM_CHANGES, differences_sql
from lockstep.parity.points import Cuts
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import CHANGE_COLUMNS, HISTORY_COLUMNS
from lockstep.settings import Settings
from pizzeria.names import MANIFEST
from pyspark.sql import SparkSession

from tests.parity.history import COMPARED, WINDOW, History, Shop, seen_by
from tests.parity.parcels import COLUMNS, parcels
from tests.pizzeria_tables import CHANGE_LOG_COLUMNS, change_log_columns
from tests.project import PROJECT_DIR

pytestmark = pytest.mark.spark

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

    def compare(self, spark: SparkSession, mode: Mode = Mode.TEMPORAL) -> Compared:
        self._write(mode)
        return comparison.compare(spark, self.settings, PLAN, WINDOW, mode, self.ready())

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
                order_ids=tuple(repair.orders),
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
        self._table(PLAN.hourly_table, batch, self.batch_schema())
        self._table(PLAN.change_log(mode), self.log, self.log_schema(mode))
        self._table(PLAN.history, self.source, arrow_schema(HISTORY_COLUMNS))

    def batch_schema(self) -> pa.Schema:
        return BATCH

    def log_schema(self, mode: Mode) -> pa.Schema:
        return arrow_schema(change_log_columns(mode))

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


def cancelled_by_nobody(tables: Tables, change: dict) -> str:
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
    cancelled_by_nobody,
]


def never_true(_: Tables, change: dict, __: random.Random) -> dict:
    return change | {"table_name": "a table that never was"}


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


@pytest.fixture
def seed() -> int:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    return seed


def test_without_faults_only_what_the_history_explains_differs(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    classes: Counter[str] = Counter()
    for number in range(2):
        tables = Tables(Shop(seed + number).evening(400), tmp_path / str(number))
        compared = tables.compare(spark)
        expected = tables.history.expected()
        assert found_in(compared) == expected
        assert compared.counts == Counter(expected.values())
        assert compared.rows == len(tables.batch)
        classes.update(expected.values())
    assert set(classes) == {"dimension_drift", "changed_after_cut"}


def test_repaired_orders_are_judged_at_the_cut_of_their_last_repair(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    how: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    for number in range(2):
        tables = Tables(Shop(seed + number).repaired_evening(700), tmp_path / str(number))
        expected = tables.history.expected()
        assert found_in(tables.compare(spark)) == expected
        for repair in tables.history.repairs:
            how.update(repair.orders.values())
            classes.update(expected.get(id_, "equal") for id_ in repair.orders)
        repaired = {id_ for repair in tables.history.repairs for id_ in repair.orders}
        gone = repaired - {row["order_id"] for row in tables.batch}
        assert not gone & expected.keys()
        tables.history.repairs.clear()
        assert found_in(tables.compare(spark)) != expected
    assert set(how) == {"new", "updated", "cancelled"}
    assert {"equal", "dimension_drift"} <= set(classes)


def some_evening(rng: random.Random, number: int) -> History:
    """Each second one with repairs."""
    shop = Shop(rng.randrange(2**32))
    return shop.repaired_evening(700) if number % 2 else shop.evening(700)


def test_each_planted_fault_is_found_in_its_class_and_nothing_else_is(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    planted: Counter[str] = Counter()
    for number in range(ROUNDS):
        rng = random.Random(f"{seed} {number}")
        history = some_evening(rng, number)
        tables = Tables(history, tmp_path / str(number))
        expected = history.expected()
        for change in rng.sample(tables.live(), FAULTS_OF_A_ROUND):
            fault = rng.choice(FAULTS)
            found = fault(tables, change)
            if found is not None:
                expected[change["order_id"]] = found
                planted[fault.__name__] += 1
        assert found_in(tables.compare(spark, Mode.LOOKUP)) == expected, number
    assert planted.total() >= 200
    assert set(planted) == {fault.__name__ for fault in FAULTS}


def test_a_look_up_of_another_moment_is_a_race_whatever_the_hourly_table_drifted(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    both, gone_or_not_there = 0, 0
    for number in range(2):
        shop = Shop(seed + number)
        history = shop.repaired_evening(600) if number else shop.evening(600)
        tables = looked_up(history, tmp_path / str(number), random.Random(seed))
        expected = history.expected(tables.log)
        compared = tables.compare(spark, Mode.LOOKUP)
        assert found_in(compared) == expected
        assert compared.counts == Counter(expected.values())
        assert set(expected.values()) == {"lookup_race", "dimension_drift", "changed_after_cut"}
        drifted = history.expected()
        races = [one for one in compared.differing if one.kind is DifferenceClass.LOOKUP_RACE]
        both += sum(drifted.get(*one.key) == "dimension_drift" for one in races)
        gone_or_not_there += sum(one.stream.values["order_time"] is None for one in races)
    assert both
    assert gone_or_not_there


def test_a_look_up_that_saw_something_else_is_a_mismatch(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    planted: Counter[str] = Counter()
    for number in range(ROUNDS):
        rng = random.Random(f"{seed} {number}")
        history = some_evening(rng, number)
        tables = looked_up(history, tmp_path / str(number), rng)
        wrong = plant_wrong_look_ups(tables, rng)
        planted.update(wrong.values())
        expected = history.expected(tables.log) | dict.fromkeys(wrong, "value_mismatch")
        compared = tables.compare(spark, Mode.LOOKUP)
        assert found_in(compared) == expected, (number, wrong)
        assert compared.counts[DifferenceClass.LOOKUP_RACE] > 0
    assert planted.total() >= 100
    assert set(planted) == {fault.__name__ for fault in WRONG_LOOK_UPS}


def looked_up(history: History, folder: Path, rng: random.Random) -> Tables:
    """A history's tables, the stream's as the look-up leaves it."""
    tables = Tables(history, folder)
    tables.log = history.looked_up_log(rng)
    return tables


def plant_wrong_look_ups(tables: Tables, rng: random.Random) -> dict[int, str]:
    """Spoil some raced rows; which orders, and how. Every other change stays right."""
    wrong = {}
    for change in rng.sample(tables.live(), FAULTS_OF_A_ROUND):
        fault = rng.choice(WRONG_LOOK_UPS)
        spoilt = fault(tables, change, rng)
        spoilt["is_raced"] = True
        if is_wrong(tables, spoilt):
            change.update(spoilt)
            wrong[change["order_id"]] = fault.__name__
    return wrong


def test_a_race_names_what_the_look_up_saw_and_the_changes_that_explain_it(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    history = Shop(seed).evening(600)
    tables = looked_up(history, tmp_path, random.Random(seed))
    differing = tables.differences(spark, Mode.LOOKUP)
    races = [one for one in differing if one.kind is DifferenceClass.LOOKUP_RACE]
    writes = {(key, t.tx_id) for t in history.transactions for key in t.writes}
    how = Counter()
    for race in races:
        found = json.loads(race.evidence)
        change, seen = found["change"], found["seen"]
        for one in found["explained_by"]:
            assert ((one["table"], one["id"]), one["tx_id"]) in writes
            assert f"by transaction {one['tx_id']}" in explanation(race)
        if seen is None:
            how["not visible"] += 1
            assert "not yet visible" in explanation(race)
        elif seen["tx_id"] != change["tx_id"]:
            how["another version"] += 1
            assert (("orders", *json.loads(race.key)), seen["tx_id"]) in writes
            assert f"transaction {seen['tx_id']}" in explanation(race)
        else:
            how["names"] += 1
            assert found["explained_by"]
    assert set(how) == {"not visible", "another version", "names"}


def test_a_raced_row_of_a_table_without_snapshots_is_a_mismatch_that_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(Shop(1).evening(50), tmp_path)
    change = tables.live()[0]
    change |= {"is_raced": True, "table_name": "a table of later"}
    log = pa.Table.from_pylist(tables.log, LOG)  # without what later versions keep
    write_deltalake(tables.settings.table_uri(PLAN.change_log(Mode.LOOKUP)), log)
    differing = tables.differences(spark, Mode.LOOKUP)
    (mismatch,) = (one for one in differing if one.key == f"[{change['order_id']}]")
    assert mismatch.kind is DifferenceClass.VALUE_MISMATCH
    assert "kept no snapshot" in explanation(mismatch)


def test_a_drift_names_the_change_that_explains_it(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    tables = Tables(Shop(seed).evening(400), tmp_path)
    differing = tables.differences(spark)
    drifts = [one for one in differing if one.kind is DifferenceClass.DIMENSION_DRIFT]
    assert drifts
    writes = {
        (table, id_, t.tx_id): row
        for t in tables.history.transactions
        for (table, id_), row in t.writes.items()
    }
    for drift in drifts:
        for change in json.loads(drift.evidence)["explained_by"]:
            written = writes[change["table"], change["id"], change["tx_id"]]
            sides = (change["from"], change["to"])
            assert _text(written[change["column"]]) in sides
            assert change["from"] != change["to"]


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, Decimal) else str(value)


def test_an_order_that_is_missing_says_who_wrote_it(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(Shop(1).evening(50), tmp_path)
    change = tables.live()[0]
    row_lost(tables, change)
    (one,) = (r for r in tables.compare(spark).differing if r.key == (change["order_id"],))
    assert one.origin["tx_id"] == one.in_source.tx_id == change["tx_id"]
    assert one.stream is None


def test_a_quiet_window_agrees(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(Shop(1).evening(50), tmp_path)
    tables.batch, tables.log = [], []
    assert tables.compare(spark) == Compared(0, {}, 0, [])


def test_what_was_there_before_capture_is_not_published_and_not_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(Shop(1).evening(50), tmp_path)
    change = tables.live()[0]
    row_lost(tables, change)
    (version,) = tables.versions("public.orders", change["order_id"])
    version |= {"tx_id": None, "commit_lsn": 0}
    published = tables.compare(spark, Mode.OUTBOX)
    assert published.before_capture == 1
    assert DifferenceClass.MISSING_IN_STREAM not in published.counts
    joined = tables.compare(spark, Mode.TRANSACTION)
    assert joined.before_capture == 0
    assert joined.counts[DifferenceClass.MISSING_IN_STREAM] == 1


def test_what_a_snapshot_found_published_is_not_judged_by_a_history_that_it_precedes(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(Shop(1).evening(50), tmp_path)
    change = next(c for c in tables.live() if c["client_name"] is not None)
    change |= {"client_name": "a name of before", "tx_id": None, "commit_lsn": 0}
    published = tables.compare(spark, Mode.MESSAGE)
    assert published.before_capture == 1
    assert DifferenceClass.VALUE_MISMATCH not in published.counts
    joined = tables.compare(spark, Mode.TEMPORAL)
    assert joined.counts[DifferenceClass.VALUE_MISMATCH] == 1


def test_columns_of_other_types_are_said(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(Shop(1).evening(20), tmp_path)
    tables.compare(spark)
    assert not bindings.schema_differences(
        spark, tables.settings, PLAN, Mode.TEMPORAL, tables.ready()
    )
    rows = pa.table({"order_id": pa.array([1], pa.int32()), "client_name": ["Ada"]})
    write_deltalake(tables.settings.table_uri(PLAN.change_log(Mode.OUTBOX)), rows)
    found = bindings.schema_differences(spark, tables.settings, PLAN, Mode.OUTBOX, tables.ready())
    assert "order_id: bigint in the hourly table, int in the stream's" in found
    assert any(line.startswith("pizzas: ") and "absent" in line for line in found)


@pytest.mark.parametrize("kind", DifferenceClass)
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_the_policy_tolerates_drift_and_the_look_ups_race(
    mode: Mode, kind: DifferenceClass
) -> None:
    policy = Policy(PLAN.manifest.tolerate)
    passes = kind in (DifferenceClass.DIMENSION_DRIFT, DifferenceClass.CHANGED_AFTER_CUT)
    passes |= kind is DifferenceClass.LOOKUP_RACE and mode is Mode.LOOKUP
    assert policy.verdict(mode, {kind: 1}, 1) is (Verdict.PASS if passes else Verdict.FAIL)
    assert policy.verdict(mode, {kind: 0}, 0) is Verdict.PASS


def test_rows_are_found_by_time_and_their_changes_by_a_key_of_two_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan, settings = parcels(tmp_path / "project"), Settings(home=tmp_path)
    inside, before = WINDOW.start, WINDOW.start - timedelta(days=1)
    held = {"group": "a", "number": 1, "packed": inside, "weight": Decimal("1.50")}
    rows = [held, held | {"number": 2, "packed": before}]
    hourly = [row | {"window_date": row["packed"].date()} for row in rows]
    table = pa.Table.from_pylist(hourly, arrow_schema(COLUMNS | {"window_date": "date"}))
    write_deltalake(settings.table_uri(plan.hourly_table), table)
    gone = dict.fromkeys(COLUMNS) | {"group": "a", "number": 1}
    streamed = held | {"group": "b", "number": 9}
    others = [held | {"group": "b", "packed": before}, held | {"number": 2, "packed": before}]
    log = pa.Table.from_pylist(
        [held, gone, streamed, *others], arrow_schema(COLUMNS | CHANGE_COLUMNS)
    )
    write_deltalake(settings.table_uri(plan.change_log(Mode.TEMPORAL)), log)
    ready = Tables(Shop(1).evening(1), tmp_path).ready()
    arguments = (plan, Mode.TEMPORAL, ready)
    assert bindings.schema_differences(spark, settings, *arguments) == []
    session = spark.newSession()
    bindings.bind_both_sides(session, settings, plan, WINDOW, Mode.TEMPORAL, ready)
    (batch,) = session.table("batch_rows").toArrow().to_pylist()
    changes = session.table("stream_changes").orderBy("k0", "c0").toArrow().to_pylist()
    values = {"c0": inside, "c1": Decimal("1.50"), "origin": None}
    assert batch == {"k0": "a", "k1": 1, "batch": values, "batch_rows": 1}
    assert [(one["k0"], one["k1"], one["c0"]) for one in changes] == [
        ("a", 1, None),
        ("a", 1, inside),
        ("b", 9, inside),
    ]


def test_of_a_key_of_two_columns_the_repaired_rows_are_judged_at_their_repair(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = parcels(tmp_path / "project")
    session = spark.newSession()
    late = {"op": "u", "tx_id": 15, "commit_lsn": 16, "is_raced": False}
    first = late | {"op": "c", "tx_id": 5, "commit_lsn": 8}
    held = {"k0": "it's", "k1": 7, "c0": WINDOW.start, "c1": Decimal("1.50")}
    row, other = held | {"c1": Decimal("2.00")}, held | {"k1": 8}
    stream = [held | first, row | late, other | first, other | {"c1": Decimal("2.00")} | late]
    columns = {"k0": "string", "k1": "int", "c0": "timestamp", "c1": "decimal(8,2)"}
    hourly = {"k0": "string", "k1": "int", "batch_rows": "bigint"} | {
        "batch": "struct<c0:timestamp,c1:decimal(8,2),origin:struct<tx_id:bigint>>"
    }
    batch = [
        {"k0": one["k0"], "k1": one["k1"], "batch": one, "batch_rows": 1} for one in (row, other)
    ]
    log = columns | {name: CHANGE_COLUMNS[name] for name in (*COMMIT, "is_raced")}
    for view, rows, kinds in (
        (BATCH_ROWS, batch, hourly),
        (STREAM_CHANGES, stream, log | {"look_up": "string"}),
    ):
        bound = pa.Table.from_pylist(rows, arrow_schema(kinds))
        session.createDataFrame(bound).createOrReplaceTempView(view)
    cuts = Cuts("10:10:", {plan.row_keys.read('["it\'s",7]'): "20:20:"})
    bindings.bind_repaired(session, plan, cuts)
    judged = session.sql(differences_sql(plan, cuts.snapshots, WINDOW)).collect()
    assert {one["k1"]: (one["class"], one["stream"]["tx_id"]) for one in judged} == {
        7: (None, 15),
        8: ("changed_after_cut", 5),
    }


def test_all_mismatches_are_judged_though_a_few_at_a_time_and_few_are_kept(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "ROWS_AT_ONCE", 60)
    monkeypatch.setattr(comparison, "KEPT_OF_A_CLASS", 5)
    history = Shop(seed).evening(500)
    tables = looked_up(history, tmp_path, random.Random(seed))
    expected = Counter(history.expected(tables.log).values())
    assert expected["dimension_drift"] + expected["lookup_race"] > 60
    compared = tables.compare(spark, Mode.LOOKUP)
    assert compared.counts == expected
    kept = Counter(str(one.kind) for one in compared.differing)
    assert kept == {kind: min(number, 5) for kind, number in expected.items()}
