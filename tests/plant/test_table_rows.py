"""What one transaction did to each row, and which of a row's versions are kept and found."""

import json
from pathlib import Path

import pytest
from lockstep.cdc.records import Change
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.pipeline.decoders import UNCHANGED
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.plan import PlannedTable
from lockstep.streams.kept_tables import kept_of
from lockstep.streams.source_history import history_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import TableRow, fold_rows, rows_decoder, text_of
from lockstep.streams.versions import FOREVER, TableVersions, Version, relation, values_of

from tests.plant.test_plan import NAMES, SENSOR, SITE, planned

TABLE = "t"
CITY = (NAMES.city,)


def change(number: int, op: str, key: str | None = None, *values: object) -> Change:
    row = None if key is None else TableRow((key,), values or None)
    return Change(number, 5, number, TABLE, op, row, committed_us=9, captured_us=8)


def folded(*changes: Change, living: tuple[str, ...] = ()) -> dict[str, tuple]:
    """The op and values of each row that the transaction touched, by its key."""
    whole = Transaction(5, 50, 9, list(changes), OffsetRange(1, 9), len(changes))
    found = fold_rows(whole, changes, lambda _: [(key,) for key in living])
    assert all(one.commit_lsn == 50 and one.tx_id == 5 for one in found)
    return {one.row.key[0]: (one.op, one.row.values) for one in found}


def test_a_row_is_what_its_last_change_left_and_created_if_its_first_was_an_insert() -> None:
    assert folded(change(1, "c", "a", 1), change(2, "u", "a", 2), change(3, "u", "b", 7)) == {
        "a": ("c", (2,)),
        "b": ("u", (7,)),
    }


def test_a_row_that_goes_and_comes_again_is_updated_and_one_that_comes_and_goes_is_deleted() -> (
    None
):
    again = folded(change(1, "d", "a"), change(2, "c", "a", 3))
    gone = folded(change(1, "c", "b", 1), change(2, "d", "b"))
    assert (again, gone) == ({"a": ("u", (3,))}, {"b": ("d", None)})


def test_a_truncate_deletes_who_lived_before_and_who_was_inserted_until_then() -> None:
    found = folded(
        change(1, "d", "gone"),
        change(2, "c", "new", 1),
        change(3, "t"),
        change(4, "c", "old", 2),
        living=("old", "other", "gone"),
    )
    assert found == {
        "gone": ("d", None),
        "new": ("d", None),
        "old": ("u", (2,)),
        "other": ("d", None),
    }


def test_a_large_value_that_a_later_change_leaves_out_is_that_of_the_change_before() -> None:
    assert folded(change(1, "c", "a", 1, "large"), change(2, "u", "a", 2, UNCHANGED)) == {
        "a": ("c", (2, "large"))
    }


def test_a_delete_is_read_by_its_key_alone(tmp_path: Path) -> None:
    """Debezium fills the other columns of a row before with what may be no value of their type."""
    tables = planned(tmp_path).tables
    decoder = rows_decoder("topic", tables)
    key = "00000000-0000-0000-0000-000000000001"
    record = {
        "op": "d",
        "source": {"schema": NAMES.schema, "table": NAMES.sensor, "ts_us": 1, "txId": 5},
        "transaction": {"total_order": 1},
        "before": {NAMES.id: key, NAMES.name: 5},
        "ts_us": 2,
    }
    found = decoder.decode(json.dumps(record).encode(), 1, {text_of(SENSOR.name)})
    assert found.row == TableRow((key,), None)


@pytest.fixture
def sites(tmp_path: Path) -> PlannedTable:
    return planned(tmp_path).tables[SITE.name]


def kept(table: PlannedTable, *versions: Version, settled: int = -1) -> TableVersions:
    found = TableVersions(table, [CITY])
    found.settle("a stream", settled)
    for version in versions:
        found.take(version)
    return found


def test_a_version_is_valid_until_the_next_of_its_row_and_a_deleted_row_is_not(
    sites: PlannedTable,
) -> None:
    versions = [
        Version(("A",), 1, ("A", "x")),
        Version(("A",), 5, None),
        Version(("B",), 3, ("B", None)),
    ]
    found = relation(sites, versions).to_pylist()
    assert [tuple(row.values()) for row in found] == [("A", "x", 1, 5), ("B", None, 3, FOREVER)]


def test_what_ended_before_the_frontier_is_forgotten_also_where_it_was_found(
    sites: PlannedTable,
) -> None:
    old, new = Version(("A",), 1, ("A", "x")), Version(("A",), 5, ("A", "y"))
    both, one = kept(sites, old, new, settled=4), kept(sites, new, old, settled=5)
    assert both.keys_by(CITY, {("x",)}) == both.keys_by(CITY, {("y",)}) == {("A",)}
    assert (one.keys_by(CITY, {("x",)}), one.count) == (set(), 1)
    assert list(one.versions([("A",)])) == [new]


def test_rows_live_as_of_a_commit(sites: PlannedTable) -> None:
    found = kept(
        sites,
        Version(("A",), 1, ("A", "x")),
        Version(("A",), 5, None),
        Version(("B",), 6, ("B", "")),
    )
    assert [found.living(lsn) for lsn in (0, 1, 5, 6)] == [[], [("A",)], [], [("B",)]]


def test_values_are_found_without_nulls(sites: PlannedTable) -> None:
    rows = relation(sites, [Version(("A",), 1, ("A", None)), Version(("B",), 1, ("B", "y"))])
    assert values_of(rows, CITY, is_element=False) == {("y",)}


def test_a_column_that_the_history_does_not_keep_is_named(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    some = {name: table for name, table in plan.tables.items() if name != SITE.name}
    uri = str(tmp_path / "history")
    history_log(uri, some, 1, 7)
    StoredHistory(uri).require(kept_of(some.values()))
    with pytest.raises(PipelineError, match=f"does not keep {NAMES.code}, {NAMES.city} of public"):
        StoredHistory(uri).require(kept_of(plan.tables.values()))
