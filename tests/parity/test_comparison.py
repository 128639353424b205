"""The comparison finds what differs, in the right class, with its evidence, and nothing else."""

import json
import math
import random
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.ledger.formatting import explanation
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.parity import at_points, bindings, comparison, proof, sides
from lockstep.parity.comparison import Compared, OtherModes
from lockstep.parity.differences import (
    BATCH_ROWS,
    COMMIT,
    STREAM_CHANGES,
    differences_sql,
    explained_sql,
)
from lockstep.parity.points import Cuts
from lockstep.parity.policy import Policy
from lockstep.parity.sides import Sides
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.result_tables import CHANGE_COLUMNS
from lockstep.settings import Settings
from pyspark.sql import DataFrame, SparkSession

from tests.parity.history import WINDOW, History, Shop
from tests.parity.parcels import COLUMNS, parcels
from tests.parity.planted_faults import (
    FAULTS,
    LOG,
    PLAN,
    WRONG_LOOK_UPS,
    Tables,
    found_in,
    is_wrong,
    planted_in,
    row_lost,
    some_evening,
)

pytestmark = pytest.mark.spark

ROUNDS = 4
FAULTS_OF_A_ROUND = 60


@pytest.fixture(params=["few", "many"])
def rows_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How a window's rows are read: by delta-rs when they are few, else by Spark."""
    if request.param == "many":
        monkeypatch.setattr(sides, "ROWS_MAX", -1)


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
        expected, known = tables.history.expected(), OtherModes()
        assert found_in(tables.compare(spark, others=known)) == expected
        for repair in tables.history.repairs:
            how.update(repair.orders.values())
            classes.update(expected.get(id_, "equal") for id_ in repair.orders)
        repaired = {id_ for repair in tables.history.repairs for id_ in repair.orders}
        gone = repaired - {row["order_id"] for row in tables.batch}
        assert not gone & expected.keys()
        tables.history.repairs.clear()
        assert found_in(tables.compare(spark, others=known)) == found_in(tables.compare(spark))
        assert found_in(tables.compare(spark)) != expected
    assert set(how) == {"new", "updated", "cancelled"}
    assert {"equal", "dimension_drift"} <= set(classes)


def test_what_modes_of_a_window_have_in_common_is_found_once(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[Mode] = []
    points: list[int] = []
    bind = bindings.bind_both_sides

    def binding(session: SparkSession, sides: Sides) -> None:
        bound.append(sides.mode)
        bind(session, sides)

    def evaluating(*arguments: Any) -> DataFrame:
        points.append(len(arguments[-1]))
        return at_points.evaluated(*arguments)

    monkeypatch.setattr(bindings, "bind_both_sides", binding)
    monkeypatch.setattr(proof, "evaluated", evaluating)
    tables, others = Tables(Shop(seed).evening(400), tmp_path), OtherModes()
    expected = tables.history.expected()
    for mode in (Mode.TEMPORAL, Mode.TRANSACTION):
        assert found_in(tables.compare(spark, mode, others)) == expected
    assert bound == [Mode.TEMPORAL]
    wrong = next(change for change in tables.live() if change["tx_id"] is not None)
    wrong["client_name"] = "another"
    expected[wrong["order_id"]] = "value_mismatch"
    for mode in (Mode.MESSAGE, Mode.OUTBOX):
        assert found_in(tables.compare(spark, mode, others)) == expected
    assert bound == [Mode.TEMPORAL, Mode.MESSAGE]
    assert points[0] > 2 >= sum(points[1:])


def test_the_proof_reads_the_kept_rows_and_computes_none_again(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark finds them by the plan of their query, of which a CTE elsewhere changes the numbers."""
    are_kept: list[bool] = []
    explained = proof.explained

    def proved(by: proof.Evidence, suspects: DataFrame) -> pa.Table:
        found = explained(by, suspects)
        query = by.session.sql(explained_sql(by.plan))
        plan = query._jdf.queryExecution().withCachedData().toString()
        are_kept.append("InMemoryRelation" in plan)
        return found

    monkeypatch.setattr(proof, "explained", proved)
    Tables(Shop(seed).evening(200), tmp_path).compare(spark)
    assert are_kept == [True]


@pytest.mark.usefixtures("rows_read")
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
            fault, found = planted_in(tables, change, rng)
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


@pytest.mark.usefixtures("rows_read")
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
    assert not tables.sides(Mode.TEMPORAL).differing_columns()
    rows = pa.table({"order_id": pa.array([1], pa.int32()), "client_name": ["Ada"]})
    write_deltalake(tables.settings.table_uri(PLAN.change_log(Mode.OUTBOX)), rows)
    found = tables.sides(Mode.OUTBOX).differing_columns()
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


@pytest.mark.usefixtures("rows_read")
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
        [row | {"commit_lsn": 1} for row in (held, gone, streamed, *others)],
        arrow_schema(COLUMNS | CHANGE_COLUMNS),
    )
    write_deltalake(settings.table_uri(plan.change_log(Mode.TEMPORAL)), log)
    ready = Tables(Shop(1).evening(1), tmp_path).ready()
    sides = Sides(settings, plan, WINDOW, Mode.TEMPORAL, ready)
    assert sides.differing_columns() == []
    session = spark.newSession()
    bindings.bind_both_sides(session, sides)
    (batch,) = session.table("batch_rows").toArrow().to_pylist()
    changes = session.table("stream_changes").orderBy("k0", "c0").toArrow().to_pylist()
    values = {"c0": inside, "c1": Decimal("1.50"), "origin": None}
    assert batch == {"k0": "a", "k1": 1, "batch": values, "batch_rows": 1}
    assert [(one["k0"], one["k1"], one["c0"]) for one in changes] == [
        ("a", 1, None),
        ("a", 1, inside),
        ("b", 9, inside),
    ]


@pytest.mark.parametrize(
    ("of_stream", "of_batch", "epsilon", "differs"),
    [
        (1.0, 1.0 + 1e-12, "1e-9", False),
        (-1e300, -1e300 * (1 + 1e-12), "1e-9", False),
        (1.0, 1.0 + 1e-12, "0", True),
        (1.0, 1.0 + 1e-6, "1e-9", True),
        (1.0, -1.0, "1e-9", True),
        (0.0, 1e-300, "1e-9", True),
        (math.inf, 1.0, "1e-9", True),
        (math.inf, math.inf, "1e-9", False),
        (math.nan, 1.0, "1e-9", True),
        (math.nan, math.nan, "1e-9", False),
        (None, 1.0, "1e-9", True),
        (None, None, "1e-9", False),
    ],
)
def test_doubles_are_the_same_as_near_as_the_manifest_tolerates(
    spark: SparkSession,
    tmp_path: Path,
    of_stream: float | None,
    of_batch: float | None,
    epsilon: str,
    differs: bool,
) -> None:
    plan = parcels(
        tmp_path, f"tolerate = {{ float_epsilon = {epsilon} }}\n", COLUMNS | {"weight": "double"}
    )
    held = {"k0": "a", "k1": 7, "c0": WINDOW.start}
    columns = {"k0": "string", "k1": "int", "c0": "timestamp", "c1": "double"}
    change = held | {"c1": of_stream, "op": "c", "tx_id": 5, "commit_lsn": 8, "is_raced": False}
    log = columns | {name: CHANGE_COLUMNS[name] for name in (*COMMIT, "is_raced")}
    batch = {"k0": "a", "k1": 7, "batch": held | {"c1": of_batch}, "batch_rows": 1}
    hourly = {"k0": "string", "k1": "int", "batch_rows": "bigint"} | {
        "batch": "struct<c0:timestamp,c1:double,origin:struct<tx_id:bigint>>"
    }
    session = spark.newSession()
    for view, row, kinds in (
        (BATCH_ROWS, batch, hourly),
        (STREAM_CHANGES, change, log | {"look_up": "string"}),
    ):
        bound = pa.Table.from_pylist([row], arrow_schema(kinds))
        session.createDataFrame(bound).createOrReplaceTempView(view)
    (judged,) = session.sql(differences_sql(plan, Cuts("10:10:", {}).snapshots, WINDOW)).collect()
    assert judged["class"] == ("value_mismatch" if differs else None)
    assert judged["differing"] == ([1] if differs else [])


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


def test_more_changes_than_few_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few rows may have changed often: their changes are counted, too."""
    tables = Tables(some_evening(random.Random(seed), 1), tmp_path)
    found = found_in(tables.compare(spark))
    asked = sides.Sides(tables.settings, PLAN, WINDOW, Mode.TEMPORAL, tables.ready())
    by_bounds = asked.few
    monkeypatch.setattr(sides, "_BOUNDED", ())
    without = replace(asked).few
    assert (asked.key_bounds is None, replace(asked).key_bounds) == (False, None)
    assert [one.num_rows for one in by_bounds] == [one.num_rows for one in without]
    monkeypatch.setattr(sides, "CHANGES_MAX", without[1].num_rows - 1)
    assert replace(asked).few is None
    assert found_in(tables.compare(spark)) == found == tables.history.expected()
