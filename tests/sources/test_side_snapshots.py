"""With which rows a pipeline begins, and whose are not there."""

from dataclasses import replace
from pathlib import Path

import pytest
from lockstep.errors import StreamError
from lockstep.pipeline.catalog import TableName
from lockstep.settings import Settings
from lockstep.sources.side_snapshots import (
    SideSnapshot,
    SideSnapshotMissingError,
    SideSnapshots,
    read_side_snapshots,
    side_snapshots_path,
    side_snapshots_text,
)

ORDERS, CLIENTS, SITES, NOTES = (
    TableName("public", name) for name in ["orders", "clients", "sites", "notes"]
)
FIRST = (str(ORDERS), str(CLIENTS))


def taken(
    number: int, late: list[TableName], tables: list[TableName], position: int | None
) -> SideSnapshot:
    return SideSnapshot(number, tuple(map(str, late)), tuple(map(str, tables)), position)


def of(*side: SideSnapshot) -> SideSnapshots:
    return SideSnapshots("shop", side, FIRST)


def test_tables_of_the_connectors_own_snapshot_need_no_other() -> None:
    assert of().first_of([ORDERS, CLIENTS]) is None
    assert of(taken(1, [SITES], [SITES, ORDERS], 50)).first_of([ORDERS, CLIENTS]) is None


def test_before_it_is_known_what_the_connector_began_with_every_table_counts_as_its() -> None:
    assert SideSnapshots("shop").first_of([ORDERS, SITES]) is None


def test_a_pipeline_begins_with_the_oldest_snapshot_that_has_all_of_its_tables() -> None:
    without, whole = taken(1, [SITES], [SITES, CLIENTS], 50), taken(2, [], [SITES, ORDERS], 70)
    later = taken(3, [NOTES], [NOTES, SITES, ORDERS], 90)
    assert of(without, whole, later).first_of([ORDERS, SITES]) == whole
    assert of(without, whole, later).first_of([SITES]) == without


def test_a_table_that_came_again_is_of_its_last_snapshot() -> None:
    old, new = taken(1, [SITES], [SITES, ORDERS], 50), taken(2, [SITES], [SITES, ORDERS], 70)
    assert of(old, new).of_late(SITES) == new
    assert of(old, new).first_of([ORDERS, SITES]) == new


@pytest.mark.parametrize(
    "side",
    [
        (),
        (taken(1, [SITES], [SITES, ORDERS], None),),
        (taken(1, [SITES], [SITES, CLIENTS], 50),),
    ],
    ids=["none", "broken off", "of other tables"],
)
def test_rows_that_are_nowhere_are_an_error_that_says_what_brings_them(
    side: tuple[SideSnapshot, ...],
) -> None:
    with pytest.raises(SideSnapshotMissingError, match="`lockstep source capture shop` brings"):
        of(*side).first_of([ORDERS, SITES])


def test_a_table_whose_changes_have_a_gap_is_in_no_snapshot_until_it_is_taken_again() -> None:
    old, new = taken(1, [SITES], [SITES, ORDERS], 50), taken(2, [SITES], [SITES, ORDERS], 70)
    with_gap = of(old).without([str(SITES), str(CLIENTS)])
    assert [with_gap.has(table) for table in (ORDERS, CLIENTS, SITES)] == [True, False, False]
    assert replace(with_gap, taken=[*with_gap.taken, new]).first_of([ORDERS, SITES]) == new


def test_what_is_written_is_read_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert read_side_snapshots(settings, "shop") == SideSnapshots("shop")
    path = side_snapshots_path(settings, "shop")
    path.parent.mkdir(parents=True)
    one = taken(1, [SITES], [SITES], 50)
    path.write_text(side_snapshots_text(of(one)))
    assert read_side_snapshots(settings, "shop") == replace(of(one), taken=(one,))
    path.write_text("{")
    with pytest.raises(StreamError, match=r"snapshots\.json is damaged"):
        read_side_snapshots(settings, "shop")
