"""What a look-up saw of another moment is a race, with evidence; what it never saw, a mismatch."""

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.ledger.formatting import explanation
from lockstep.model.verdict import DifferenceClass
from lockstep.pipeline.modes import Mode
from pyspark.sql import SparkSession

from tests.parity.history import Shop
from tests.parity.planted_faults import (
    FAULTS_OF_A_ROUND,
    LOG,
    PLAN,
    ROUNDS,
    WRONG_LOOK_UPS,
    Tables,
    found_in,
    is_wrong,
    looked_up,
    some_evening,
)

pytestmark = pytest.mark.spark


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
