"""What a run writes into its commit is what is read back, and nothing else is taken for a run."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from lockstep.cdc.cuts import Cut, DatabaseSnapshot
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window

COMMIT = RunCommit(
    Window.parse("2024-02-28T12:00Z", "2024-02-28T13:00Z"),
    ReadMode.TABLES,
    17,
    Cut("a run", "800:805:801,803", 4242, datetime(2024, 2, 28, 13, 5, tzinfo=UTC)),
)


REPAIR = RepairCommit(
    COMMIT.window,
    "a run",
    (7, 9),
    18,
    "Ada",
    Cut("a repair", "900:900:", 5000, COMMIT.cut.taken_at),
)


def test_a_commit_survives_the_round_trip() -> None:
    assert RunCommit.from_json(COMMIT.as_json()) == COMMIT
    assert RepairCommit.from_json(REPAIR.as_json()) == REPAIR
    of_texts = replace(REPAIR, row_keys=('["a0",7]', '["it\'s",9]'))
    assert RepairCommit.from_json(of_texts.as_json()) == of_texts


def test_a_repair_of_before_is_read_whatever_it_calls_its_keys() -> None:
    text = REPAIR.as_json()
    assert '"row_keys": [7, 9]' in text
    assert RepairCommit.from_json(text.replace('"row_keys"', '"order_ids"')) == REPAIR
    with pytest.raises(ValueError, match="not enough values"):
        RepairCommit.from_json(text.replace("[7, 9]", "7").replace('"row_keys"', '"order_ids"'))


def test_a_repair_is_taken_for_no_run_and_a_run_for_no_repair() -> None:
    with pytest.raises(KeyError):
        RunCommit.from_json(REPAIR.as_json())
    with pytest.raises(KeyError):
        RepairCommit.from_json(COMMIT.as_json())


@pytest.mark.parametrize(
    ("xmax", "row_xid", "tx_id"),
    [(1000, 998, 998), (2**32 + 5, 3, 2**32 + 3), (2**32 + 5, 2**32 - 1, 2**32 - 1)],
)
def test_a_rows_transaction_is_the_last_one_of_its_32_bits(
    xmax: int, row_xid: int, tx_id: int
) -> None:
    assert DatabaseSnapshot(xmax, xmax, frozenset()).full_tx_id(row_xid) == tx_id


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"run_id": "a run", "cut": {}}'])
def test_other_metadata_is_refused(text: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        RunCommit.from_json(text)
    with pytest.raises((KeyError, TypeError, ValueError)):
        RepairCommit.from_json(text)
