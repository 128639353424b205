"""Compactions of a table whose writer makes its own commits: no row is lost or doubled."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from lockstep.delta_tables import open_delta
from lockstep.sinks.append_log import AppendLog, Reached, reached_of
from lockstep.sinks.maintenance import tidy
from lockstep.streams.reader_runner import COMMIT_SECONDS

from tests.sinks.local_tables import (
    SCHEMA,
    delete_rows,
    in_order,
    log_at,
    numbers,
    rows_of,
    seeded,
    small,
)


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
            assert log._appends.compact(open_delta(log.uri), 10**6)
            compacted += 1

    number = 0
    with ThreadPoolExecutor(1) as pool:
        compactions = pool.submit(compact)
        while (compacted < 20 or number < 60) and not compactions.done():
            number += 1
            log.append(small(number, part=f"p{number % 2}"), number + 1, number)
            done.wait(COMMIT_SECONDS)  # as a stream, whose entries a listing may miss otherwise
        done.set()
        compactions.result(60)
    assert all(engines)
    assert numbers(log) == list(range(number + 1))
    assert DeltaTable(log.uri).version() > number + 1, "some compactions were in between"
    assert len(DeltaTable(log.uri).file_uris()) < number / 2


def test_an_append_follows_a_compaction_by_delta_rs(tmp_path: Path, engines: list[bool]) -> None:
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


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("change", ["delete", "compact"])
def test_a_compaction_gives_way_to_a_change_of_what_it_read(
    tmp_path: Path, change: str, is_followed: bool
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
    if is_followed:
        log.append(small(4), 4, 4)
    before, files = numbers(log), sorted(Path(log.uri).rglob("*.parquet"))
    assert not log._appends.compact(read, 10**6)
    assert sorted(Path(log.uri).rglob("*.parquet")) == files
    assert numbers(log) == before


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
