"""A table of differences that an earlier version wrote: it is refused, and upgraded."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.ledger import book, differences_of_before
from lockstep.ledger.differences_of_before import upgrade_differences
from lockstep.ledger.entries import DIFFERENCES_COLUMNS
from lockstep.model.verdict import Verdict
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from pizzeria.names import PARITY_DIFFERENCES

from tests.ledger.compared_hours import DIFFERENCES, line

COLUMNS_OF_BEFORE = {
    "order_id" if name == "row_key" else name: "bigint" if name == "row_key" else kind
    for name, kind in DIFFERENCES_COLUMNS.items()
}
FAILED = line(0, Verdict.FAIL, dimension_drift=1, value_mismatch=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two commits of before, as that version wrote them."""
    settings = Settings(home=tmp_path)
    for one in DIFFERENCES:
        (order_id,) = json.loads(one.key)
        row = {
            "check_id": FAILED.check_id,
            "window_start": FAILED.window.start,
            "mode": str(FAILED.mode),
            "class": str(one.kind),
            "order_id": order_id,
            "differing_columns": one.differing_columns,
            "batch": one.batch,
            "stream": one.stream,
            "evidence": one.evidence,
        }
        book.append_rows(settings, PARITY_DIFFERENCES, COLUMNS_OF_BEFORE, [row])
    return settings


def table_of(settings: Settings) -> DeltaTable:
    return DeltaTable(settings.table_uri(PARITY_DIFFERENCES))


def is_of_this_version(settings: Settings) -> bool:
    """Its rows, its columns in their order, and that nothing of it may be changed."""
    found = sorted(book.differences(settings, FAILED.check_id), key=lambda one: one.key)
    table = table_of(settings)
    return (
        found == sorted(DIFFERENCES, key=lambda one: one.key)
        and pa.schema(table.schema().to_arrow()) == arrow_schema(DIFFERENCES_COLUMNS)
        and table.metadata().configuration == {"delta.appendOnly": "true"}
    )


def test_a_table_of_before_is_refused_with_the_remedy(settings: Settings) -> None:
    version = table_of(settings).version()
    with pytest.raises(LakehouseError, match="lockstep upgrade"):
        book.differences(settings, FAILED.check_id)
    with pytest.raises(LakehouseError, match="lockstep upgrade"):
        book.append(settings, FAILED, DIFFERENCES)
    assert table_of(settings).version() == version
    assert book.lines(settings) == []


def test_the_upgrade_keeps_every_row_and_is_done_once(settings: Settings) -> None:
    (what,) = upgrade_differences(settings)
    assert "row_key" in what
    assert is_of_this_version(settings)
    version = table_of(settings).version()
    assert list(upgrade_differences(settings)) == []
    assert table_of(settings).version() == version
    book.append(settings, line(1, Verdict.FAIL, value_mismatch=1), DIFFERENCES[:1])
    assert book.differences(settings, "outbox 1") == DIFFERENCES[:1]


def test_a_home_without_differences_stays_as_it_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert list(upgrade_differences(settings)) == []
    assert not DeltaTable.is_deltatable(settings.table_uri(PARITY_DIFFERENCES))


@pytest.mark.parametrize("is_written", [False, True])
def test_one_that_is_broken_off_is_done_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Before the commit of the rows, and after it."""

    def killed(*arguments: object, **named: object) -> None:
        if is_written:
            write_deltalake(*arguments, **named)
        raise InterruptedError(4, "killed")

    with monkeypatch.context() as patched:
        patched.setattr(differences_of_before, "write_deltalake", killed)
        with pytest.raises(LakehouseError, match="killed"):
            list(upgrade_differences(settings))
    assert not is_written or book.differences(settings, FAILED.check_id)
    list(upgrade_differences(settings))
    assert is_of_this_version(settings)


def test_nothing_moves_while_a_comparison_writes(settings: Settings) -> None:
    with sole_writer(settings, PARITY_DIFFERENCES), pytest.raises(WriterBusyError):
        list(upgrade_differences(settings))
    assert "order_id" in table_of(settings).to_pyarrow_table().column_names
