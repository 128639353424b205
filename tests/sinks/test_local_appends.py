"""Appends made without delta-rs say what delta-rs's say, and give way to what they must."""

import errno
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from lockstep.errors import LakehouseError
from lockstep.sinks import delta_commits, local_files
from lockstep.sinks.append_log import APPEND_ONLY, AppendLog, Reached, reached_of
from lockstep.sinks.local_appends import LocalAppends
from lockstep.sinks.maintenance import tidy
from lockstep.sources.delta import run_query
from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "small": pa.int16(),
        "name": pa.string(),
        "price": pa.decimal128(12, 2),
        "fine": pa.decimal128(38, 18),
        "share": pa.float64(),
        "is_paid": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "content": pa.binary(),
        "lines": pa.list_(pa.struct({"pizza": pa.string(), "count": pa.int32()})),
        "part": pa.string(),
    }
)
PARTS = [None, "public.orders", 'a "b" c', "ä%20é", "x/y", "a=b:c?d#e", "[z]{y}", " lead"]


def seeded() -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    return random.Random(seed)


def rows_of(rng: random.Random, count: int) -> pa.Table:
    """Rows of all types, with nulls; numbers are 1, 2, …"""
    first = datetime(2026, 1, 1, tzinfo=UTC)

    def some(value: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.15 else value()

    def at() -> datetime:
        return first + timedelta(microseconds=rng.randrange(10**13))

    return pa.Table.from_pylist(
        [
            {
                "number": number,
                "small": some(lambda: rng.randrange(-(2**15), 2**15)),
                "name": some(lambda: rng.choice("aäz🍕'\"\\\n\U0010ffff") * rng.randrange(40)),
                "price": some(lambda: Decimal(rng.randrange(-(10**6), 10**6)) / 100),
                "fine": some(lambda: Decimal(rng.randrange(-3, 4)) / 10**18),
                "share": some(lambda: rng.choice([0.5, -0.25, 1e300])),
                "is_paid": some(lambda: rng.random() < 0.5),
                "day": some(lambda: date(1000, 1, 1) + timedelta(days=rng.randrange(3_000_000))),
                "at": some(at),
                "local": some(lambda: at().replace(tzinfo=None)),
                "content": some(lambda: rng.randbytes(3)),
                "lines": some(lambda: [{"pizza": "x", "count": 2}] * rng.randrange(3)),
                "part": rng.choice(PARTS),
            }
            for number in range(1, count + 1)
        ],
        SCHEMA,
    )


def in_order(table: pa.Table) -> list[str]:
    """Each row as text."""
    wanted = table.select(SCHEMA.names).cast(SCHEMA).sort_by("number")
    return [repr(row) for row in wanted.to_pylist()]


def small(*numbers: int, part: str = "a") -> pa.Table:
    return pa.Table.from_pylist([{"number": one, "part": part} for one in numbers], SCHEMA)


def log_at(folder: Path) -> AppendLog:
    return AppendLog(str(folder), SCHEMA, "part", 24, 77)


def numbers(table: DeltaTable | AppendLog) -> list[int]:
    opened = table if isinstance(table, DeltaTable) else DeltaTable(table.uri)
    return sorted(opened.to_pyarrow_table(columns=["number"])["number"].to_pylist())


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each append since was made without delta-rs."""
    made: list[bool] = []
    commit = LocalAppends.commit

    def noted(self: LocalAppends, *args: Any) -> bool:
        made.append(commit(self, *args))
        return made[-1]

    monkeypatch.setattr(LocalAppends, "commit", noted)
    return made


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
    """And passes by no file that has what is asked for."""
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


def test_no_file_is_passed_by_that_has_what_is_asked_for(tmp_path: Path) -> None:
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


def test_appends_and_compactions_at_the_same_time_lose_and_double_nothing(
    tmp_path: Path, engines: list[bool]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(0), 1, 1)
    done = threading.Event()
    compacted = 0

    def compact() -> None:
        nonlocal compacted
        while not done.is_set():
            table = DeltaTable(log.uri)
            assert log._appends.compact(table, 10**6)
            compacted += 1

    number = 0
    with ThreadPoolExecutor(1) as pool:
        compactions = pool.submit(compact)
        while compacted < 20 and not compactions.done():
            number += 1
            log.append(small(number, part=f"p{number % 2}"), number + 1, number)
            time.sleep(0.01)  # a listing of the log is not to miss one of several new entries
        done.set()
        compactions.result(60)
    assert all(engines)
    assert numbers(log) == list(range(number + 1))
    assert DeltaTable(log.uri).version() > number + 1, "some compactions were in between"
    assert len(DeltaTable(log.uri).file_uris()) < number / 2


def test_a_compaction_by_delta_rs_is_passed_by(tmp_path: Path, engines: list[bool]) -> None:
    log = log_at(tmp_path / "log")
    for number in range(1, 4):
        log.append(small(number), number, number)
    tidy(DeltaTable(log.uri), None)
    log.append(small(4), 4, 4)
    assert engines == [True] * 4
    assert numbers(log) == [1, 2, 3, 4]


def test_files_of_one_partition_are_joined_up_to_a_size(tmp_path: Path) -> None:
    rows = rows_of(seeded(), 300)
    log = log_at(tmp_path / "log")
    for start in range(0, 300, 20):
        log.append(rows.slice(start, 20), start + 1, start)
    reader, files = DeltaTable(log.uri), len(DeltaTable(log.uri).file_uris())
    size = max(pa.table(reader.get_add_actions())["size_bytes"].to_pylist())
    assert log._appends.compact(reader, 4 * size)
    table = DeltaTable(log.uri)
    assert len(table.file_uris()) < files / 2
    assert max(pa.table(table.get_add_actions())["size_bytes"].to_pylist()) < 5 * size
    assert in_order(table.to_pyarrow_table()) == in_order(reader.to_pyarrow_table())
    assert reached_of(table) == Reached(281, 280)
    for name in ("number", "name", "price", "fine", "share", "is_paid", "day", "at", "local"):
        for value in rows[name].unique().drop_null().to_pylist()[:5]:
            wanted = [one["number"] for one in rows.to_pylist() if one[name] == value]
            condition = ds.field(name) == pa.scalar(value, SCHEMA.field(name).type)
            found = table.to_pyarrow_dataset().to_table(["number"], filter=condition)
            assert sorted(found["number"].to_pylist()) == wanted, (name, value)
    while log._appends.compact(table, 4 * size) and DeltaTable(log.uri).version() > table.version():
        table = DeltaTable(log.uri)
    assert log._appends.compact(table, 4 * size)
    assert DeltaTable(log.uri).version() == table.version(), "there is nothing more to join"
    log.append(small(301), 301, 300)
    assert numbers(log) == list(range(1, 302))


@pytest.mark.parametrize("is_passed_by", [True, False])
@pytest.mark.parametrize("change", ["delete", "compact"])
def test_a_compaction_gives_way_to_a_change_of_what_it_read(
    tmp_path: Path, change: str, is_passed_by: bool
) -> None:
    """Whether the writer has appended since, and knows of that change, or not."""
    log = log_at(tmp_path / "log")
    for number in range(1, 4):
        log.append(small(number), number, number)
    read = DeltaTable(log.uri)
    if change == "delete":
        delete_rows(log.uri)
    else:
        tidy(DeltaTable(log.uri), None)
    if is_passed_by:
        log.append(small(4), 4, 4)
    before, files = numbers(log), sorted(Path(log.uri).rglob("*.parquet"))
    assert not log._appends.compact(read, 10**6)
    assert sorted(Path(log.uri).rglob("*.parquet")) == files
    assert numbers(log) == before


@pytest.mark.parametrize("error", [OSError(errno.EIO, "lost"), KeyboardInterrupt()])
def test_files_of_a_commit_that_was_made_stay_whatever_breaks_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    link = os.link

    def made_and_lost(*paths: Path) -> None:
        link(*paths)
        raise error

    monkeypatch.setattr(os, "link", made_and_lost)
    with nullcontext() if isinstance(error, OSError) else pytest.raises(KeyboardInterrupt):
        log.append(small(2), 2, 2)
    assert numbers(log) == [1, 2]


def test_a_second_writer_of_the_same_rows_is_noticed(tmp_path: Path) -> None:
    """Which the writer's lock prevents, unless the folder is shared by machines."""
    one, other = (log_at(tmp_path / "log") for _ in range(2))
    one.append(small(1), 1, 1)
    with pytest.raises(LakehouseError, match="another process writes"):
        other.append(small(1), 1, 1)
    assert numbers(one) == [1]


@pytest.mark.parametrize("groups", [[[1.0], [math.nan], [5.0]], [[math.nan, 5.0], [1.0]]])
def test_not_a_number_hides_no_number(tmp_path: Path, groups: list[list[float]]) -> None:
    path = tmp_path / "file"
    tables = [pa.table({"share": pa.array(group, pa.float64())}) for group in groups]
    said = json.loads(local_files.write_file(path, tables[0].schema, tables))
    assert (said["minValues"], said["maxValues"]) == ({"share": 1.0}, {"share": 5.0})


def test_a_day_that_python_has_not_has_no_bounds(tmp_path: Path) -> None:
    days = pa.array([0, 4_000_000], pa.int32()).cast(pa.date32())
    tables = [pa.table({"day": days}), pa.table({"day": days.slice(0, 1)})]
    said = json.loads(local_files.write_file(tmp_path / "file", tables[0].schema, tables))
    assert (said["numRecords"], said["minValues"], said["maxValues"]) == (3, {}, {})


def test_a_listing_that_misses_an_entry_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_at(tmp_path / "log")
    gaps = iter([True, True, False])

    def opened(uri: str) -> DeltaTable:
        if next(gaps):
            raise DeltaError("Kernel error: Expected contiguous commit files, but found gap")
        return DeltaTable(uri)

    monkeypatch.setattr(delta_commits, "DeltaTable", opened)
    assert delta_commits.open_busy(log.uri).version() == 0


def test_what_a_killed_writer_left_in_the_log_goes(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    left = Path(log.uri, "_delta_log", "_commit_0.json.tmp")
    left.touch()
    log_at(tmp_path / "log")
    assert not left.exists()


def test_a_column_that_came_after_a_file_is_null_in_its_rows(tmp_path: Path) -> None:
    narrow = pa.schema({"number": pa.int64(), "part": pa.string()})
    before = AppendLog(str(tmp_path / "log"), narrow, "part", 24)
    before.append(small(1).select(["number", "part"]), 1, 1)
    wide = pa.schema([*narrow, pa.field("name", pa.string())])
    log = AppendLog(before.uri, wide, "part", 24)
    row = {"number": 2, "part": "a", "name": "Ada"}
    log.append(pa.Table.from_pylist([row], wide), 2, 2)
    assert log._appends.compact(DeltaTable(log.uri), 10**6)
    (_,) = DeltaTable(log.uri).file_uris()
    rows = DeltaTable(log.uri).to_pyarrow_table().sort_by("number")
    assert rows["name"].to_pylist() == [None, "Ada"]


def set_property(uri: str) -> None:
    DeltaTable(uri).alter.set_table_properties({"a": "b"}, raise_if_not_exists=False)


def delete_rows(uri: str) -> None:
    DeltaTable(uri).alter.set_table_properties({APPEND_ONLY: "false"})
    DeltaTable(uri).delete("number = 1")
    DeltaTable(uri).alter.set_table_properties({APPEND_ONLY: "true"})


def mark(uri: str) -> None:
    properties = CommitProperties(app_transactions=[Transaction("other", 1)])
    write_deltalake(uri, small(1), mode="append", commit_properties=properties)


@pytest.mark.parametrize("change", [set_property, delete_rows, mark])
def test_after_another_commit_than_a_compaction_delta_rs_decides_once(
    tmp_path: Path, engines: list[bool], change: Callable[[str], None]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1, 2), 1, 1)
    change(log.uri)
    before = numbers(log)
    log.append(small(3), 2, 2)
    log.append(small(4), 3, 3)
    assert engines == [True, False, True]
    assert numbers(log) == sorted([*before, 3, 4])
    assert len(DeltaTable(log.uri).file_uris()) == len(list(Path(log.uri).glob("part=a/*"))) - (
        change is delete_rows  # the file whose rows it wrote into another
    )
    assert reached_of(DeltaTable(log.uri)) == Reached(3, 3)


def test_rows_are_replaced_and_properties_set_between_appends(
    tmp_path: Path, engines: list[bool]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    log.replace(["a"], pa.RecordBatchReader.from_batches(SCHEMA, small(7).to_batches()))
    log.append(small(2), 2, 2)
    log.set_property("lockstep.x", "y")
    log.append(small(3), 3, 3)
    log.add(small(4))
    log.append(small(5), 4, 4)
    log.append_stream(iter(small(6).to_batches()), 5, 5)
    log.append(small(8), 6, 6)
    assert engines == [True] * 5
    assert numbers(log) == [2, 3, 4, 5, 6, 7, 8]
    assert log.properties["lockstep.x"] == "y"


def test_a_table_with_a_feature_for_writers_is_written_by_delta_rs(tmp_path: Path) -> None:
    DeltaTable.create(
        tmp_path / "log",
        SCHEMA,
        partition_by=["part"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    table = DeltaTable(tmp_path / "log")
    assert LocalAppends.to(tmp_path / "log", table, "part") is None
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    assert "delta-rs" in DeltaTable(log.uri).history(1)[0]["engineInfo"]


def test_a_writer_whose_newest_entry_is_gone_does_not_use_its_number_again(
    tmp_path: Path, engines: list[bool]
) -> None:
    """The next could have been there, and be gone, too."""
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    for number in range(2, 5):
        write_deltalake(log.uri, small(number), mode="append")
    DeltaTable(log.uri).create_checkpoint()
    for version in range(4):
        Path(log.uri, "_delta_log", f"{version:020}.json").unlink()
    log.append(small(5), 2, 2)
    assert engines == [True, False]
    assert numbers(log) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["write", "link"])
def test_a_full_disk_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(Path(log.uri).rglob("*"))
    with monkeypatch.context() as patched:
        owner = local_files.pq.ParquetWriter if place == "write" else os
        patched.setattr(owner, "write_table" if place == "write" else place, full)
        with pytest.raises(LakehouseError, match="No space left"):
            log.append(small(2), 2, 2)
    assert sorted(Path(log.uri).rglob("*")) == before
    assert log.reached == Reached(1, 1)
    log.append(small(2), 2, 2)
    assert numbers(log) == [1, 2]


DYING = """
import os, signal, sys
import pyarrow as pa
from tests.sinks.test_local_appends import Path, log_at, small

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

log = log_at(Path(sys.argv[1]))
if sys.argv[2] == "before":
    os.link = die
else:
    Path.unlink = die
log.append(small(2, 3, part="b"), 2, 2)
"""


@pytest.mark.parametrize(("moment", "found"), [("before", [1]), ("after", [1, 2, 3])])
def test_a_killed_writer_leaves_all_or_nothing(
    tmp_path: Path, moment: str, found: list[int]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    killed = subprocess.run(
        [sys.executable, "-c", DYING, log.uri, moment], cwd=Path(__file__).parents[2], check=False
    )
    assert killed.returncode == -9
    assert numbers(log) == found
    again = log_at(tmp_path / "log")
    assert again.reached == Reached(len(found) // 3 + 1, len(found) // 3 + 1)
    again.append(small(4), 3, 3)
    assert numbers(log) == [*found, 4]
