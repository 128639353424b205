"""When each version could be read, stamped by a process of its own, and the rows it added."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.errors import LakehouseError
from lockstep_tools.bench.change_rows import COLUMNS, VISIBLE_AT, rows_seen
from lockstep_tools.bench.version_watch import VersionWatch

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def append(folder: Path, *order_ids: int) -> None:
    times = pa.array([NOON] * len(order_ids), pa.timestamp("us", "UTC"))
    ids = pa.array(order_ids, pa.int64())
    columns = dict.fromkeys(COLUMNS, times) | {"order_id": ids, "commit_lsn": ids}
    write_deltalake(folder, pa.table(columns), mode="append")


def test_versions_from_the_start_of_the_watch_on_have_their_moments_and_rows(
    tmp_path: Path,
) -> None:
    folder, later = tmp_path / "log", tmp_path / "later"
    append(folder, 1)
    with VersionWatch({"log": folder, "later": later}) as watch:
        began = time.time_ns()
        append(folder, 2, 3)
        append(folder, 4)
        append(later, 5)
        seen = watch.seen()
    assert list(seen["log"]) == [1, 2]
    assert list(seen["later"]) == [0]
    assert began <= seen["log"][1] <= seen["log"][2] <= time.time_ns()
    found = rows_seen(folder, seen["log"])
    assert found["order_id"].to_pylist() == [2, 3, 4]
    stamped = found[VISIBLE_AT].cast(pa.int64()).to_pylist()
    assert stamped == [seen["log"][version] // 1000 for version in (1, 1, 2)]


def test_no_version_is_no_row(tmp_path: Path) -> None:
    assert rows_seen(tmp_path, {}).num_rows == 0


def test_rows_whose_file_is_gone_are_an_error(tmp_path: Path) -> None:
    append(tmp_path, 1)
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(LakehouseError):
        rows_seen(tmp_path, {0: 1})
