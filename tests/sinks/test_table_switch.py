"""The whole content of an append-only table changes in one commit, under the eyes of readers."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.sinks.append_log import APPEND_ONLY, AppendLog, Reached, reached_of
from lockstep.sinks.table_switch import switch_content

COLUMNS = {"order_id": "bigint", "commit_date": "date"}
WIDER = {"order_id": "bigint", "op": "string", "commit_date": "date"}


def log_of(folder: Path, ids: range, frontier: int, columns: dict = COLUMNS) -> str:
    log = AppendLog(str(folder), arrow_schema(columns), "commit_date", 24)
    rows = [{"order_id": one, "commit_date": None} for one in ids]
    log.append(pa.Table.from_pylist(rows, schema=log.schema), frontier, frontier * 10)
    return log.uri


def ids_of(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["order_id"].to_pylist())


def test_rows_columns_and_frontier_change_in_one_commit(tmp_path: Path) -> None:
    uri = log_of(tmp_path / "old", range(9), frontier=500)
    reader = DeltaTable(uri)
    assert switch_content(uri, log_of(tmp_path / "new", range(3), 7, WIDER)) == 3
    assert ids_of(reader) == list(range(9))
    versions = range(reader.version() + 1, DeltaTable(uri).version() + 1)
    seen = [
        (ids_of(table), reached_of(table))
        for table in (DeltaTable(uri, version=version) for version in versions)
    ]
    old, new = (list(range(9)), Reached(500, 5000)), (list(range(3)), Reached(7, 70))
    assert seen == [old, new, new]
    AppendLog(uri, arrow_schema(WIDER), "commit_date", 24)


def test_the_table_is_append_only_again(tmp_path: Path) -> None:
    uri = log_of(tmp_path / "old", range(2), frontier=1)
    switch_content(uri, log_of(tmp_path / "new", range(3), 2))
    assert DeltaTable(uri).metadata().configuration[APPEND_ONLY] == "true"
    with pytest.raises(Exception, match="append-only"):
        write_deltalake(uri, DeltaTable(uri).to_pyarrow_table(), mode="overwrite")


def test_a_table_that_is_gone_is_made(tmp_path: Path) -> None:
    uri = str(tmp_path / "gone")
    assert switch_content(uri, log_of(tmp_path / "new", range(0), 2)) == 0
    assert AppendLog(uri, arrow_schema(COLUMNS), "commit_date", 24).reached == Reached(2, 20)


def test_a_new_table_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    uri = log_of(tmp_path / "old", range(2), frontier=1)
    with pytest.raises(LakehouseError):
        switch_content(uri, str(tmp_path / "gone"))
    assert ids_of(DeltaTable(uri)) == [0, 1]
