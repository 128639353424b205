"""A Delta table is opened while it is written."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from lockstep import delta_tables


def test_a_listing_that_misses_an_entry_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.create(tmp_path / "log", pa.schema({"number": pa.int64()}))
    gaps = iter([True, True, False])

    def opened(uri: str, **options: object) -> DeltaTable:
        if next(gaps):
            raise DeltaError("Kernel error: Expected contiguous commit files, but found gap")
        return DeltaTable(uri, **options)

    monkeypatch.setattr(delta_tables, "DeltaTable", opened)
    assert delta_tables.open_delta(table.table_uri).version() == 0
    assert list(gaps) == []


def test_another_error_is_raised_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []

    def refused(uri: str, **_: object) -> DeltaTable:
        attempts.append(uri)
        raise DeltaError("it has no schema")

    monkeypatch.setattr(delta_tables, "DeltaTable", refused)
    with pytest.raises(DeltaError, match="no schema"):
        delta_tables.open_delta(str(tmp_path))
    assert len(attempts) == 1
