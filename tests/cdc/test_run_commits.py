"""What a run writes into its commit is what is read back, and nothing else is taken for a run."""

from datetime import UTC, datetime

import pytest
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.contracts import ReadMode, Window

COMMIT = RunCommit(
    Window.parse("2024-02-28T12:00Z", "2024-02-28T13:00Z"),
    ReadMode.TABLES,
    17,
    Cut("a run", "800:805:801,803", 4242, datetime(2024, 2, 28, 13, 5, tzinfo=UTC)),
)


def test_a_commit_survives_the_round_trip() -> None:
    assert RunCommit.from_json(COMMIT.as_json()) == COMMIT


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"run_id": "a run", "cut": {}}'])
def test_other_metadata_is_refused(text: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        RunCommit.from_json(text)
