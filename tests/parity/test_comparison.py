"""The comparison finds what differs, in the right class, with its evidence, and nothing else."""

import json
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.model.verdict import DifferenceClass
from lockstep.parity import at_points, bindings, comparison, proof, sides
from lockstep.parity.comparison import Compared, OtherModes
from lockstep.parity.differences import (
    explained_sql,
)
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from pyspark.sql import DataFrame, SparkSession

from tests.parity.history import WINDOW, Shop
from tests.parity.planted_faults import (
    FAULTS,
    FAULTS_OF_A_ROUND,
    PLAN,
    ROUNDS,
    Tables,
    found_in,
    looked_up,
    planted_in,
    row_lost,
    some_evening,
)

pytestmark = pytest.mark.spark


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
