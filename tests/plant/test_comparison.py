"""The comparison finds what differs, in the right class, with its evidence, and nothing else."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.ledger import book
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.parity.check import check_window
from lockstep.parity.comparison import Compared, OtherModes, compare
from lockstep.parity.differences import (
    BATCH_ROWS,
    COMMIT,
    STREAM_CHANGES,
    differences_sql,
    values_of,
)
from lockstep.parity.differing import DifferingRow
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import readiness
from lockstep.parity.sides import Sides
from pyspark.sql import SparkSession

from tests.plant.history import COMPARED, NOON, WINDOW, Works
from tests.plant.planned import NAMES
from tests.plant.planted_drifts import plant_drifts
from tests.plant.tables import MODE, OUTPUTS, Tables, plan_by_number

pytestmark = pytest.mark.spark

SEEDS = (11, 12, 13)
TRANSACTIONS = 320
FAULTS_OF_A_SEED = 45


def compared(spark: SparkSession, tables: Tables) -> Compared:
    """The tables are there."""
    ready = readiness(tables.settings, tables.plan, WINDOW, MODE)
    assert (ready.verdict, ready.reason) == (None, "")
    return compare(spark, Sides(tables.settings, tables.plan, WINDOW, MODE, ready), OtherModes())


def verdict(tables: Tables, found: Compared) -> Verdict:
    return Policy(tables.plan.manifest.tolerate).verdict(MODE, found.counts, found.rows)


def by_key(found: Compared) -> dict[str, DifferingRow]:
    return {one.key[0]: one for one in found.differing}


def classes(found: Compared) -> dict[str, str]:
    return {key: str(one.kind) for key, one in by_key(found).items()}


def transactions(one: DifferingRow, column: str) -> set[int]:
    return {change.tx_id for change in one.causes[NAMES.names[column]]}


def logical(name: str) -> str:
    return next(known for known, made in NAMES.names.items() if made == name)


def plain_keys(tables: Tables) -> list[str]:
    """Readings of the window that agree, each with one change only."""
    of_key = Counter(change["reading_id"] for change in tables.log)
    differing = tables.of.expected()
    there = [row["reading_id"] for row in tables.hourly]
    return [key for key in there if of_key[key] == 1 and key not in differing]


Fault = Callable[[Tables, str], dict[str, str]]
"""Does something to a reading that agrees; gives the class of each one that then differs."""


def change_lost(tables: Tables, key: str) -> dict[str, str]:
    tables.log.remove(tables.change(key))
    return {key: "missing_in_stream"}


def change_doubled(tables: Tables, key: str) -> dict[str, str]:
    tables.log.append(dict(tables.change(key)))
    return {key: "duplicate_in_stream"}


def change_of_no_reading(tables: Tables, key: str) -> dict[str, str]:
    tables.log.append(tables.change(key) | {"reading_id": f"{key}, another"})
    return {f"{key}, another": "missing_in_batch"}


def deleted_in_the_stream(tables: Tables, key: str) -> dict[str, str]:
    tables.change(key).update(dict.fromkeys(COMPARED), op="d")
    return {key: "missing_in_stream"}


def row_lost(tables: Tables, key: str) -> dict[str, str]:
    tables.hourly.remove(tables.row(key))
    return {key: "missing_in_batch"}


def row_of_no_reading(tables: Tables, key: str) -> dict[str, str]:
    tables.hourly.append(tables.row(key) | {"reading_id": f"{key}, a third"})
    return {f"{key}, a third": "missing_in_stream"}


def row_doubled(tables: Tables, key: str) -> dict[str, str]:
    tables.hourly.append(dict(tables.row(key)))
    return {key: "value_mismatch"}


def amount_off_in_the_stream(tables: Tables, key: str) -> dict[str, str]:
    change = tables.change(key)
    change["amount"] = (change["amount"] or Decimal(0)) + Decimal("0.000001")
    return {key: "value_mismatch"}


def amount_off_in_the_hourly_table(tables: Tables, key: str) -> dict[str, str]:
    row = tables.row(key)
    row["amount"] = (row["amount"] or Decimal(0)) - Decimal("0.000001")
    return {key: "value_mismatch"}


def name_turned_null(tables: Tables, key: str) -> dict[str, str]:
    change = tables.change(key)
    change["sensor_name"] = None if change["sensor_name"] else "a name that is not there"
    return {key: "value_mismatch"}


def other_time(tables: Tables, key: str) -> dict[str, str]:
    tables.change(key)["measured_at"] += timedelta(microseconds=1)
    return {key: "value_mismatch"}


def name_of_another_moment(tables: Tables, key: str) -> dict[str, str]:
    """One that the sensor has, or had, in a transaction of no matter here."""
    sensor = tables.of.state()["fact", key]["sensor_id"]
    change = tables.change(key)
    names = {
        row["name"] for one in tables.of.transactions if (row := one.writes.get(("sensor", sensor)))
    }
    others = sorted(names - {change["sensor_name"]})
    if not others:
        return {}
    change["sensor_name"] = others[0]
    return {key: "value_mismatch"}


FAULTS: tuple[Fault, ...] = (
    change_lost,
    change_doubled,
    change_of_no_reading,
    deleted_in_the_stream,
    row_lost,
    row_of_no_reading,
    row_doubled,
    amount_off_in_the_stream,
    amount_off_in_the_hourly_table,
    name_turned_null,
    other_time,
    name_of_another_moment,
)


def drift_spoilt(tables: Tables, key: str) -> dict[str, str]:
    """A real drift of one column excuses no other column."""
    change, row = tables.change(key), tables.row(key)
    same = next(name for name in COMPARED[1:] if change[name] == row[name])
    change[same] = Decimal("0.5") if same == "amount" else "what was never written"
    return {key: "value_mismatch"}


def drift_with_other_values(tables: Tables, key: str) -> dict[str, str]:
    """What the stream has is not of its own commit."""
    change, row = tables.change(key), tables.row(key)
    other = next(name for name in COMPARED[1:] if change[name] != row[name])
    change[other] = Decimal("0.5") if other == "amount" else "what was never written"
    return {key: "value_mismatch"}


def last_change_lost(tables: Tables, key: str) -> dict[str, str]:
    """The stream has stayed at an older version of the reading itself."""
    seen = {one.commit_lsn for one in tables.of.transactions if one.is_seen}
    of_key = [one for one in tables.log if one["reading_id"] == key and one["commit_lsn"] in seen]
    tables.log.remove(of_key[-1])
    return {key: "value_mismatch"}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_planted_fault_and_drift_is_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    works = Works(seed)
    works.work(TRANSACTIONS // 2)
    drifts = plant_drifts(works)
    works.work(TRANSACTIONS // 2)
    history = works.cut(
        [one for drift in drifts for one in drift.seen],
        [one for drift in drifts for one in drift.hidden],
    )
    tables = Tables(history, plan_by_number(tmp_path / "project"), tmp_path)
    expected = history.expected()
    assert {drift.reading for drift in drifts} <= expected.keys()
    planted = plant_faults(tables, works, {drift.reading for drift in drifts})
    expected |= planted
    assert len(planted) + len(drifts) > FAULTS_OF_A_SEED

    tables.write()
    found = compared(spark, tables)

    assert classes(found) == expected
    assert found.counts == Counter(expected.values())
    assert verdict(tables, found) is Verdict.FAIL
    for drift in drifts:
        one = by_key(found)[drift.reading]
        caused = {logical(name): transactions(one, logical(name)) for name in one.columns}
        assert caused == {name: {tx_id} for name, tx_id in drift.causes.items()}


def plant_faults(tables: Tables, works: Works, kept: set[str]) -> dict[str, str]:
    """Three of each fault on readings that agree, and some on those that drift or were corrected.

    kept: readings that no fault is to touch. Returns the class of each reading that then differs.
    """
    expected: dict[str, str] = {}
    keys = plain_keys(tables)
    works.rng.shuffle(keys)
    for fault in FAULTS * 3:
        expected |= fault(tables, keys.pop())
    of_key = Counter(change["reading_id"] for change in tables.log)
    drifted = [
        key
        for key, kind in tables.of.expected().items()
        if kind == "dimension_drift" and of_key[key] == 1 and key not in kept
        if any(tables.change(key)[name] == tables.row(key)[name] for name in COMPARED[1:])
    ]
    for fault in (drift_with_other_values, drift_spoilt) * 3:
        key = drifted.pop()
        expected |= fault(tables, key)
    for key in tables.of.corrected()[:3]:
        expected |= last_change_lost(tables, key)
    return expected


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_differs_by_drifts_and_later_changes_alone(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    works = Works(seed)
    works.work(TRANSACTIONS)
    history = works.cut()
    tables = Tables(history, plan_by_number(tmp_path / "project"), tmp_path)
    tables.write()
    found = compared(spark, tables)
    expected = history.expected()
    assert classes(found) == expected
    assert found.counts == Counter(expected.values())
    assert verdict(tables, found) is Verdict.PASS
    drifted = [key for key, kind in expected.items() if kind == "dimension_drift"]
    assert len(drifted) > 10
    for key in drifted:
        one = by_key(found)[key]
        for column in map(logical, one.columns):
            assert transactions(one, column) == history.causes(key, column), (key, column)


def test_a_quiet_window_of_a_quiet_source_passes(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(Works(SEEDS[0]).cut(), plan_by_number(tmp_path / "project"), tmp_path)
    tables.hourly, tables.log, tables.history = [], [], []
    tables.write()
    found = compared(spark, tables)
    assert (found.rows, found.counts, found.differing) == (0, {}, [])


def test_a_column_of_another_type_fails_the_window_before_its_rows_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(Works(SEEDS[0]).cut(), plan_by_number(tmp_path / "project"), tmp_path)
    tables.write_hourly()
    tables.write_history()
    monkeypatch.setitem(OUTPUTS, "amount", pa.float64())
    tables.log = [change | {"amount": None} for change in tables.log]
    tables.write_log()
    ready = readiness(tables.settings, tables.plan, WINDOW, MODE)
    mode, project = StreamMode(MODE), tmp_path / "project"
    settings = tables.settings.model_copy(update={"project": project})
    check = check_window(
        lambda: spark, Sides(settings, tables.plan, WINDOW, mode, ready), OtherModes()
    )
    assert book.lines(settings) == [check.line]
    assert check.line.verdict is Verdict.FAIL
    assert check.line.reason == (
        f"the columns differ: {NAMES.amount}: decimal(18,6) in the hourly table, "
        "double in the stream's"
    )


def test_values_compare_by_value_whatever_their_column_is_called(
    spark: SparkSession, tmp_path: Path
) -> None:
    """NaN is NaN, also in lists; a null is a null alone; columns have any name."""
    query = (
        "SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, r.$value AS key, "
        "r.$value AS `a b.'c` FROM $schema.$fact AS r"
    )
    plan = plan_by_number(tmp_path, query=query)
    values = "c0 timestamp, c1 double, c2 array<float>"
    of_commit = "op string, tx_id bigint, commit_lsn bigint, committed_at timestamp"
    of_look_up = "is_raced boolean, look_up string"
    nan = float("nan")
    batch = [
        ("same", NOON, nan, [nan, 0.0, None]),
        ("null", NOON, None, []),
        ("list", NOON, 1.0, [nan]),
    ]
    stream = [
        ("same", NOON, nan, [nan, -0.0, None]),
        ("null", NOON, 0.0, []),
        ("list", NOON, 1.0, []),
    ]
    session = spark.newSession()
    changes = [(*row, "c", 5, 8, NOON, False, None) for row in stream]
    bound = session.createDataFrame(changes, f"k0 string, {values}, {of_commit}, {of_look_up}")
    assert set(COMMIT) < set(bound.columns)
    bound.createOrReplaceTempView(STREAM_CHANGES)
    hourly = f"k0 string, batch struct<{values}, origin string>, batch_rows bigint"
    rows = [(key, (*row, None), 1) for key, *row in batch]
    session.createDataFrame(rows, hourly).createOrReplaceTempView(BATCH_ROWS)
    seen = DatabaseSnapshot(9, 9, frozenset())
    rows = session.sql(differences_sql(plan, [seen], WINDOW)).collect()
    names = values_of(plan)
    assert {row["k0"]: [names[n] for n in row["differing"]] for row in rows} == {
        "same": [],
        "null": ["key"],
        "list": ["a b.'c"],
    }
