"""An append-only table stays small, whoever writes it and however often he is restarted."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lockstep.sinks import append_log
from lockstep.sinks.append_log import AppendLog

COLUMNS = {"order_id": "bigint", "commit_date": "date"}
EVERY = 5


def append(log: AppendLog, number: int) -> None:
    rows = [{"order_id": number, "commit_date": None}]
    log.append(pa.Table.from_pylist(rows, schema=log.schema), number, number)


@pytest.mark.parametrize("commits_of_a_writer", [1, 3, 100])
def test_restarts_of_its_writer_do_not_put_its_compaction_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits_of_a_writer: int
) -> None:
    monkeypatch.setattr(append_log, "MAINTAIN_COMMITS", EVERY)
    maintained = 0
    for number in range(1, 41):
        if number % commits_of_a_writer == 1 % commits_of_a_writer:
            log = AppendLog(str(tmp_path / "log"), COLUMNS, "commit_date", 24)
        append(log, number)
        maintained += log.maintain()
        assert len(DeltaTable(log.uri).file_uris()) <= EVERY + 1
    table = DeltaTable(log.uri).to_pyarrow_table()
    assert sorted(table["order_id"].to_pylist()) == list(range(1, 41))
    assert maintained < 40 / (EVERY - 2)
