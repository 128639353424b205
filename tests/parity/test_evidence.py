"""What explains a differing row, over another shape of rows than the pizzeria's."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from lockstep.ledger.formatting import both_sides, explanation
from lockstep.parity import evidence
from lockstep.settings import Settings

from tests.parity.parcels import parcels

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
VALUES = {"packed": NOON, "weight": Decimal("1.50")}
CHANGE = {"op": "c", "tx_id": 712, "commit_lsn": 4800, "committed_at": NOON}


def test_a_row_is_named_by_its_key_and_has_the_values_of_both_sides(tmp_path: Path) -> None:
    row = {
        "group": "it's",
        "number": 7,
        "class": "value_mismatch",
        "differing_columns": ["weight"],
        "in_stream": True,
        "batch": VALUES | {"origin": {"tx_id": 712, "committed_at": NOON}},
        "stream": VALUES | CHANGE | {"weight": Decimal("2.00"), "is_raced": False},
        "after_cut": None,
    }
    (found,) = evidence.differences(Settings(home=tmp_path), parcels(tmp_path / "project"), [row])
    assert found.key == '["it\'s",7]'
    assert json.loads(found.batch) == {"packed": NOON.isoformat(), "weight": "1.50"}
    assert json.loads(found.stream) == {"packed": NOON.isoformat(), "weight": "2.00"}
    assert both_sides(found) == "weight: 1.50 | 2.00"
    assert explanation(found).startswith("the stream has it as of transaction 712")


def test_bytes_are_written_as_base64(tmp_path: Path) -> None:
    row = {
        "group": "a",
        "number": 7,
        "class": "missing_in_batch",
        "differing_columns": [],
        "in_stream": True,
        "batch": None,
        "stream": CHANGE | {"packed": NOON.date(), "weight": b"\x01"},
        "after_cut": None,
    }
    (found,) = evidence.differences(Settings(home=tmp_path), parcels(tmp_path / "project"), [row])
    assert json.loads(found.stream) == {"packed": "2024-05-01", "weight": "AQ=="}
