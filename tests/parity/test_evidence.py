"""What explains a differing row, over another shape of rows than the pizzeria's."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from lockstep.ledger.formatting import both_sides, explanation
from lockstep.model.verdict import DifferenceClass
from lockstep.parity import evidence
from lockstep.parity.cause import Change
from lockstep.parity.differing import Commit, DifferingRow, StreamRow
from lockstep.parity.versions import Version
from lockstep.pipeline.catalog import TableName

from tests.parity.parcels import parcels

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOON_US = round(NOON.timestamp() * 1_000_000)
VALUES = {"packed": NOON, "weight": Decimal("1.50")}
COMMIT = Commit("c", 712, 4800, NOON)
OTHER = VALUES | {"weight": Decimal("2.00")}


def differing(kind: DifferenceClass, **fields: object) -> DifferingRow:
    row = {
        "key": ("it's", 7),
        "batch": VALUES,
        "origin": {"tx_id": 712, "committed_at": NOON},
        "stream": StreamRow(OTHER, COMMIT),
        "after_cut": None,
        "in_stream": True,
        "batch_rows": 1,
        "repeated_changes": 0,
        "columns": ("weight",),
    }
    return DifferingRow(kind, **(row | fields))


def test_a_row_is_named_by_its_key_and_has_the_values_of_both_sides(tmp_path: Path) -> None:
    row = differing(DifferenceClass.VALUE_MISMATCH)
    (found,) = evidence.differences(parcels(tmp_path / "project"), [row], {})
    assert found.key == '["it\'s",7]'
    assert json.loads(found.batch) == {"packed": NOON.isoformat(), "weight": "1.50"}
    assert json.loads(found.stream) == {"packed": NOON.isoformat(), "weight": "2.00"}
    assert both_sides(found) == "weight: 1.50 | 2.00"
    assert explanation(found).startswith("the stream has it as of transaction 712")


def test_bytes_are_written_as_base64(tmp_path: Path) -> None:
    values = {"packed": NOON.date(), "weight": b"\x01"}
    row = differing(
        DifferenceClass.MISSING_IN_BATCH, batch=None, stream=StreamRow(values, COMMIT), columns=()
    )
    (found,) = evidence.differences(parcels(tmp_path / "project"), [row], {})
    assert json.loads(found.stream) == {"packed": "2024-05-01", "weight": "AQ=="}


def test_a_mismatch_says_what_the_query_gives_and_how_often_the_row_is_there(
    tmp_path: Path,
) -> None:
    row = differing(
        DifferenceClass.VALUE_MISMATCH,
        origin=None,
        in_source=Version((), 800, 4900, NOON_US),
        batch_rows=2,
        by_query=(None, OTHER),
    )
    (found,) = evidence.differences(parcels(tmp_path / "project"), [row], {})
    text = explanation(found)
    assert f"the batch as of transaction 800 at {NOON.isoformat()}" in text
    assert "the hourly table has this key 2 times" in text
    assert "weight: the query gives 2.00 at the cut | no single row for the stream" in text


def test_a_change_is_named_once_with_its_table_and_key_as_people_write_them(
    tmp_path: Path,
) -> None:
    change = Change(
        table=TableName("public", "rate"),
        row_key="[3]",
        op="u",
        tx_id=9,
        commit_lsn=50,
        committed_at=NOON,
        is_in_cut=True,
        columns={"rate": (Decimal("1.0"), None)},
    )
    row = differing(
        DifferenceClass.DIMENSION_DRIFT, causes={"weight": (change,), "packed": (change,)}
    )
    (found,) = evidence.differences(parcels(tmp_path / "project"), [row], {})
    assert json.loads(found.evidence)["explained_by"] == [
        {
            "table": "rate",
            "id": 3,
            "column": "rate",
            "from": "1.0",
            "to": None,
            "tx_id": 9,
            "committed_at": NOON.isoformat(),
        }
    ]


def test_a_row_that_no_history_has_is_missing_without_a_transaction(tmp_path: Path) -> None:
    row = differing(
        DifferenceClass.MISSING_IN_STREAM, origin=None, stream=None, in_stream=False, columns=()
    )
    (found,) = evidence.differences(parcels(tmp_path / "project"), [row], {})
    assert explanation(found) == "the source's history has no such row at the cut"
    assert evidence.lost_rows([row]) == []
