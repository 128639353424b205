"""A local table's log stays small: old versions are forgotten, and the newest can all be read."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.sinks import maintenance
from lockstep.sinks.append_log import AppendLog
from lockstep.sinks.maintenance import forget_versions

COLUMNS = {"order_id": "bigint", "commit_date": "date"}
EVERY, KEPT, COMMITS = 5, 12, 60


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of COMMITS orders, each in a commit, whose writer keeps KEPT versions."""
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", EVERY)
    log = AppendLog(
        str(tmp_path / "log"), arrow_schema(COLUMNS), "commit_date", 24, versions_max=KEPT
    )
    for number in range(1, COMMITS + 1):
        rows = [{"order_id": number, "commit_date": None}]
        log.append(pa.Table.from_pylist(rows, schema=log.schema), number, number)
        log.maintain()
    return log.uri


def readable(uri: str) -> list[int]:
    found = []
    for version in range(DeltaTable(uri).version() + 1):
        try:
            DeltaTable(uri, version=version)
        except DeltaError:
            continue
        found.append(version)
    return found


def test_the_newest_versions_can_be_read_and_few_more_are_there(uri: str) -> None:
    newest = DeltaTable(uri).version()
    found = readable(uri)
    assert found == list(range(found[0], newest + 1))
    assert newest - KEPT - 2 * EVERY <= found[0] <= newest - KEPT + 1
    assert len(list(Path(uri, "_delta_log").iterdir())) < KEPT + 6 * EVERY
    assert sorted(DeltaTable(uri).to_pyarrow_table()["order_id"].to_pylist()) == list(
        range(1, COMMITS + 1)
    )


def test_a_log_without_a_checkpoint_that_is_old_enough_stays_whole(uri: str) -> None:
    before = readable(uri)
    for path in Path(uri, "_delta_log").glob("*.checkpoint.parquet"):
        if int(path.name[:20]) <= before[-1] - 3:
            path.unlink()
    forget_versions(Path(uri), 4)
    assert Path(uri, "_delta_log", f"{before[0]:020}.json").exists()
