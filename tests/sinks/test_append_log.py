"""An append-only table stays small, whoever writes it and however often he is restarted."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lockstep.errors import LakehouseError
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.sinks import maintenance
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.sinks.local_appends import LocalAppends
from lockstep.sinks.maintenance import forget_versions, tidy

COLUMNS = {"order_id": "bigint", "commit_date": "date"}
EVERY = 5


def append(log: AppendLog, number: int) -> None:
    rows = [{"order_id": number, "commit_date": None}]
    log.append(pa.Table.from_pylist(rows, schema=log.schema), number, number)


def orders(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["order_id"].to_pylist())


@pytest.mark.parametrize("commits_of_a_writer", [1, 3, 100])
def test_restarts_of_its_writer_do_not_put_its_compaction_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits_of_a_writer: int
) -> None:
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", EVERY)
    maintained = 0
    for number in range(1, 41):
        if number % commits_of_a_writer == 1 % commits_of_a_writer:
            log = AppendLog(str(tmp_path / "log"), arrow_schema(COLUMNS), "commit_date", 24)
        append(log, number)
        maintained += log.maintain()
        assert len(DeltaTable(log.uri).file_uris()) <= EVERY + 1
    assert orders(DeltaTable(log.uri)) == list(range(1, 41))
    assert maintained < 40 / (EVERY - 2)


def test_a_log_that_delta_rs_writes_gets_checkpoints_between_compactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit reads what the log has since the last one; what is older can go."""
    monkeypatch.setattr(maintenance, "CHECKPOINT_COMMITS", EVERY)
    monkeypatch.setattr(LocalAppends, "to", lambda *_: None)
    log = AppendLog(str(tmp_path / "log"), arrow_schema(COLUMNS), "commit_date", 24)
    for number in range(1, 4 * EVERY):
        append(log, number)
        assert not log.maintain(), "nothing is compacted yet"
        forget_versions(Path(log.uri), 1)
    entries = {path.name for path in Path(log.uri, "_delta_log").glob("*.json")}
    assert len(entries) <= EVERY + 1
    assert orders(DeltaTable(log.uri)) == list(range(1, 4 * EVERY))


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppendLog:
    """A log whose rows are due for their compaction, each in a file of its own."""
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", EVERY)
    log = AppendLog(str(tmp_path / "log"), arrow_schema(COLUMNS), "commit_date", 24)
    for number in range(1, EVERY):
        append(log, number)
    return log


def test_a_reader_of_a_kept_version_finds_its_files_after_the_vacuum(
    filled: AppendLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "VACUUM_MAINTENANCES", 1)
    append(filled, EVERY)
    reader = DeltaTable(filled.uri)
    assert filled.maintain()
    assert len(DeltaTable(filled.uri).file_uris()) == 1
    assert orders(reader) == list(range(1, EVERY + 1))


def test_rows_at_a_frontier_that_is_reached_are_refused(filled: AppendLog) -> None:
    version = DeltaTable(filled.uri).version()
    with pytest.raises(LakehouseError, match="nothing was written"):
        append(filled, EVERY - 1)
    assert DeltaTable(filled.uri).version() == version


@pytest.mark.parametrize(("vacuum_maintenances", "is_due"), [(1, True), (2, False)])
def test_files_that_no_kept_version_needs_are_removed_when_it_is_time(
    filled: AppendLog, monkeypatch: pytest.MonkeyPatch, vacuum_maintenances: int, is_due: bool
) -> None:
    monkeypatch.setattr(maintenance, "VACUUM_MAINTENANCES", vacuum_maintenances)
    keeping_none = AppendLog(filled.uri, arrow_schema(COLUMNS), "commit_date", 0)
    append(keeping_none, EVERY)
    files = [Path(uri) for uri in DeltaTable(filled.uri).file_uris()]
    assert keeping_none.maintain()
    assert [path.exists() for path in files] == [not is_due] * EVERY
    assert orders(DeltaTable(filled.uri)) == list(range(1, EVERY + 1))


def test_a_vacuum_removes_the_files_of_all_compactions_since_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint forgets a removed file as soon as no kept version needs it."""
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", EVERY)
    monkeypatch.setattr(maintenance, "VACUUM_MAINTENANCES", 3)
    log = AppendLog(str(tmp_path / "log"), arrow_schema(COLUMNS), "commit_date", 0)
    files: set[str] = set()
    number = maintained = 0
    while maintained < 3:
        number += 1
        append(log, number)
        files.update(DeltaTable(log.uri).file_uris())
        maintained += log.maintain()
    left = {uri for uri in files if Path(uri).exists()}
    assert left <= set(DeltaTable(log.uri).file_uris())


WIDER = {**COLUMNS, "client_name": "string"}


def test_a_table_of_an_earlier_version_gets_the_columns_that_came_since(filled: AppendLog) -> None:
    wider = AppendLog(filled.uri, arrow_schema(WIDER), "commit_date", 24)
    assert wider.reached == filled.reached
    row = {"order_id": EVERY, "commit_date": None, "client_name": "Ada"}
    wider.append(pa.Table.from_pylist([row], schema=wider.schema), EVERY, EVERY)
    tidy(DeltaTable(filled.uri), None)  # files of before and of after become one
    (_,) = DeltaTable(filled.uri).file_uris()
    rows = DeltaTable(filled.uri).to_pyarrow_table().sort_by("order_id").to_pylist()
    assert [row["client_name"] for row in rows] == [None] * (EVERY - 1) + ["Ada"]
    version = DeltaTable(filled.uri).version()
    again = AppendLog(filled.uri, arrow_schema(WIDER), "commit_date", 24)
    assert DeltaTable(filled.uri).version() == version
    assert again.reached == Reached(EVERY, EVERY)


@pytest.mark.parametrize(
    "columns",
    [
        {"client_name": "string", **COLUMNS},
        {"order_id": "bigint"},
        {"order_id": "bigint", "other": "date", "client_name": "string"},
    ],
)
def test_a_table_of_other_columns_is_refused_and_stays_as_it_was(
    filled: AppendLog, columns: dict[str, str]
) -> None:
    version = DeltaTable(filled.uri).version()
    with pytest.raises(LakehouseError, match="stream rebuild"):
        AppendLog(filled.uri, arrow_schema(columns), "commit_date", 24)
    assert DeltaTable(filled.uri).version() == version
