"""Files and what the log says of them: readers find every row, and skip no file of one."""

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.sinks import local_files
from lockstep.sinks.append_log import Reached, reached_of
from lockstep.sinks.maintenance import tidy
from lockstep.sources.delta import run_query
from pyspark.sql import SparkSession

from tests.sinks.local_tables import SCHEMA, in_order, log_at, rows_of, seeded, small


def test_rows_marks_and_properties_are_as_delta_rs_has_them(
    tmp_path: Path, engines: list[bool]
) -> None:
    rows = rows_of(seeded(), 200)
    log = log_at(tmp_path / "log")
    log.append(rows, 500, 40)
    log.append(rows.slice(0, 0), 501, 41)
    assert engines == [True, True]
    assert log.reached == Reached(501, 41)
    table = DeltaTable(log.uri)
    assert reached_of(table) == Reached(501, 41)
    assert table.transaction_version("lockstep/capture") == 77
    assert in_order(table.to_pyarrow_table()) == in_order(rows)
    other = DeltaTable.create(tmp_path / "other", SCHEMA, partition_by=["part"])
    write_deltalake(other, rows, mode="append")
    assert {Path(uri).parent.name for uri in table.file_uris()} == {
        Path(uri).parent.name for uri in other.file_uris()
    }
    tidy(table, 0)
    assert in_order(DeltaTable(log.uri).to_pyarrow_table()) == in_order(rows)


@pytest.mark.spark
def test_spark_finds_every_row_by_every_column(spark: SparkSession, tmp_path: Path) -> None:
    """And skips no file that has what is asked for."""
    rows = rows_of(seeded(), 60)
    log = log_at(tmp_path / "log")
    for start in range(0, 60, 6):
        log.append(rows.slice(start, 6), start + 1, start)
    frame = spark.read.format("delta").load(log.uri)
    assert sorted(row.number for row in frame.collect()) == list(range(1, 61))
    assert in_order(frame.toArrow()) == in_order(rows)
    for name in ("small", "name", "price", "fine", "day", "at", "local", "part"):
        for value in list({row[name] for row in frame.select(name).collect()})[:4]:
            condition = frame[name].eqNullSafe(value)
            wanted = [one["number"] for one in rows.to_pylist() if same(one[name], value)]
            assert sorted(row.number for row in frame.where(condition).collect()) == wanted
    history = spark.sql(f"DESCRIBE HISTORY delta.`{log.uri}`").first()
    assert (history.operation, history.isBlindAppend) == ("WRITE", True)


def same(stored: Any, found: Any) -> bool:
    """A moment as the row has it, and as Spark gives it: in the session's own zone, UTC."""
    if isinstance(stored, datetime) and stored.tzinfo is not None and found is not None:
        return stored.replace(tzinfo=None) == found
    return stored == found


def test_no_file_is_skipped_that_has_what_is_asked_for(tmp_path: Path) -> None:
    rng = seeded()
    rows = rows_of(rng, 200)
    log = log_at(tmp_path / "log")
    for start in range(0, 200, 20):
        log.append(rows.slice(start, 20), start + 1, start)
    table = DeltaTable(log.uri)
    dataset = table.to_pyarrow_dataset()
    for name in SCHEMA.names:
        if name in ("lines", "content"):
            continue
        values = rows[name].unique().drop_null().to_pylist()
        for value in rng.sample(values, min(len(values), 12)):
            wanted = [one["number"] for one in rows.to_pylist() if one[name] == value]
            condition = ds.field(name) == pa.scalar(value, SCHEMA.field(name).type)
            found = dataset.to_table(["number"], filter=condition)["number"].to_pylist()
            assert sorted(found) == wanted, (name, value)
    for number in (1, 77, 200):
        found = run_query(f"SELECT number FROM log WHERE number = {number}", {"log": table})
        assert found.read_all()["number"].to_pylist() == [number]


def test_what_an_entry_says_of_its_file(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(3, 1, 2), 5, 6)
    lines = Path(log.uri, "_delta_log", f"{1:020}.json").read_text().splitlines()
    entry = {name: value for line in lines for name, value in json.loads(line).items()}
    said = json.loads(entry["add"]["stats"])
    assert said["numRecords"] == 3
    assert (said["minValues"], said["maxValues"]) == ({"number": 1}, {"number": 3})
    assert said["nullCount"]["name"] == 3
    assert entry["add"]["size"] == next(Path(log.uri, "part=a").iterdir()).stat().st_size
    assert not list(Path(log.uri, "_delta_log").glob("*.tmp"))


@pytest.mark.parametrize("groups", [[[1.0], [math.nan], [5.0]], [[math.nan, 5.0], [1.0]]])
def test_not_a_number_hides_no_number(tmp_path: Path, groups: list[list[float]]) -> None:
    path = tmp_path / "file"
    tables = [pa.table({"share": pa.array(group, pa.float64())}) for group in groups]
    said = json.loads(local_files.write_file(path, tables[0].schema, tables))
    assert (said["minValues"], said["maxValues"]) == ({"share": 1.0}, {"share": 5.0})


def test_a_day_that_python_cannot_represent_has_no_bounds(tmp_path: Path) -> None:
    days = pa.array([0, 4_000_000], pa.int32()).cast(pa.date32())
    tables = [pa.table({"day": days}), pa.table({"day": days.slice(0, 1)})]
    said = json.loads(local_files.write_file(tmp_path / "file", tables[0].schema, tables))
    assert (said["numRecords"], said["minValues"], said["maxValues"]) == (3, {}, {})
