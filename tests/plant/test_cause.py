"""Which changes explain a value that differs, from versions alone; and how versions are read."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.errors import LakehouseError
from lockstep.parity.cause import Between
from lockstep.parity.points import Points
from lockstep.parity.proof import Suspect, has_last_change
from lockstep.parity.versions import (
    HistoryReader,
    RowHistories,
    RowHistory,
    Version,
    comparable,
    reached_rows,
)
from lockstep.pipeline.catalog import Column, Table, TableName
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import HISTORY_COLUMNS, HISTORY_PARTITION
from lockstep.sinks.append_log import AppendLog

from tests.plant.planned import FACT, NAMES, planned

AT = datetime(2024, 5, 1, tzinfo=UTC)
AT_US = round(AT.timestamp() * 1_000_000)
RATE = Table(
    TableName("public", "rate"),
    (
        Column("id", "integer", False),
        Column("unit", "text"),
        Column("zone", "text"),
        Column("rate", "integer"),
        Column("parent", "integer"),
    ),
    ("id",),
)
"""Read in the order of its columns."""
USE = Table(
    FACT.name,
    (
        Column(NAMES.id, "integer", False),
        Column("unit", "text"),
        Column("zone", "text"),
        Column("rate_id", "integer"),
        Column(NAMES.taken_at, "timestamp with time zone", False),
    ),
    (NAMES.id,),
)
HEAD = "SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, "
BY_UNIT_AND_ZONE = f"""{HEAD} p.rate AS paid FROM $schema.$fact AS r
LEFT JOIN rate AS p ON p.unit = r.unit AND p.zone = r.zone"""
BY_GRANDPARENT = f"""{HEAD} g.rate AS paid FROM $schema.$fact AS r
LEFT JOIN rate AS s ON s.id = r.rate_id
LEFT JOIN rate AS p ON p.id = s.parent
LEFT JOIN rate AS g ON g.id = p.parent"""
ALL_SEEN = DatabaseSnapshot(1_000, 1_000, frozenset())
FIRST, SECOND, THIRD = 1, 2, 3
"""Commits and their transactions; the fact is of the first."""


def plan_of_rates(folder: Path, query: str) -> Plan:
    return planned(folder, USE, RATE, query=query)


def row(table: TableName, key: int, *versions: tuple[int, tuple[Any, ...] | None]) -> RowHistory:
    """Versions by commit, whose transaction has the same number."""
    made = (Version(values, commit, commit, AT_US) for commit, values in versions)
    return RowHistory(table, f"[{key}]", tuple(made))


def use(unit: str = "kg") -> RowHistory:
    return row(USE.name, 1, (FIRST, (1, unit, "north", AT)))


def between(plan: Plan, rows: Iterable[RowHistory], seen: DatabaseSnapshot = ALL_SEEN) -> Between:
    """The fact 1 between the first commit and a cut, which sees everything if none is given."""
    return between_in(plan, histories(plan, rows), seen)


def between_in(plan: Plan, rows: RowHistories, seen: DatabaseSnapshot = ALL_SEEN) -> Between:
    return Between(
        plan, rows, "[1]", lambda row: row.place_at(FIRST), lambda row: row.place_in(seen)
    )


def histories(plan: Plan, rows: Iterable[RowHistory]) -> RowHistories:
    found = RowHistories(plan.tables)
    found.add(rows)
    return found


def test_a_row_that_another_equality_of_the_join_leaves_out_explains_nothing(
    tmp_path: Path,
) -> None:
    north = row(RATE.name, 1, (0, (1, "kg", "north", 5)), (SECOND, (1, "kg", "north", 6)))
    south = row(RATE.name, 2, (0, (2, "kg", "south", 5)), (THIRD, (2, "kg", "south", 9)))
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    (change,) = between(plan, [use(), north, south]).changes("paid")
    assert (change.row_key, change.op, change.tx_id) == ("[1]", "u", SECOND)
    assert change.columns == {"rate": (5, 6)}


@pytest.mark.parametrize("column", [1, 2], ids=["the one of the step", "the other one"])
def test_a_row_that_leaves_the_join_explains_it_by_the_column_that_it_left_by(
    tmp_path: Path, column: int
) -> None:
    before, after = [1, "kg", "north", 5], [1, "kg", "north", 7]
    after[column] = "elsewhere"
    rate = row(RATE.name, 1, (0, tuple(before)), (SECOND, tuple(after)))
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    (change,) = between(plan, [use(), rate]).changes("paid")
    name = RATE.columns[column].name
    assert (change.tx_id, change.columns) == (SECOND, {name: (before[column], "elsewhere")})


def test_a_value_that_came_back_and_what_is_not_read_explain_nothing(tmp_path: Path) -> None:
    rate = row(
        RATE.name,
        1,
        (0, (1, "kg", "north", 5)),
        (SECOND, (1, "kg", "north", 6)),
        (THIRD, (1, "kg", "north", 5)),
    )
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    assert between(plan, [use(), rate]).changes("paid") == ()


def test_a_row_that_comes_and_goes_is_named_with_what_it_had(tmp_path: Path) -> None:
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    values = (1, "kg", "north", 5)
    (gone,) = between(plan, [use(), row(RATE.name, 1, (0, values), (SECOND, None))]).changes("paid")
    (come,) = between(plan, [use(), row(RATE.name, 1, (THIRD, values))]).changes("paid")
    assert (gone.op, gone.tx_id, gone.columns["rate"]) == ("d", SECOND, (5, None))
    assert (come.op, come.tx_id, come.columns["rate"]) == ("c", THIRD, (None, 5))


def test_a_change_that_the_cut_missed_is_named_as_such(tmp_path: Path) -> None:
    rate = row(RATE.name, 1, (0, (1, "kg", "north", 5)), (FIRST, (1, "kg", "north", 6)))
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    fact = RowHistory(USE.name, "[1]", (Version((1, "kg", "north", AT), 2, FIRST, AT_US),))
    missed = between(plan, [fact, rate], DatabaseSnapshot(1, 3, frozenset({1})))
    (change,) = missed.changes("paid")
    assert (change.tx_id, change.is_in_cut, change.columns) == (1, False, {"rate": (5, 6)})


def test_the_fact_is_the_same_at_both_points_only_if_its_version_is(tmp_path: Path) -> None:
    plan = plan_of_rates(tmp_path, BY_UNIT_AND_ZONE)
    corrected = row(USE.name, 1, (FIRST, (1, "kg", "north", AT)), (SECOND, (1, "g", "north", AT)))
    one = Suspect((1,), "[1]", FIRST, False, None, "1000:1000:")
    assert has_last_change(plan, histories(plan, [use()]), one)
    assert not has_last_change(plan, histories(plan, [corrected]), one)
    assert not has_last_change(plan, histories(plan, []), one)


def test_a_version_is_valid_to_the_next_commit_of_its_row_and_the_last_seen_one_at_the_cut() -> (
    None
):
    points = Points(["3:1000:3"])
    cut = points.number("3:1000:3")
    history = row(RATE.name, 1, (0, ("a",)), (SECOND, None), (THIRD, ("b",)), (7, ("c",)))
    assert list(points.validities(history)) == [
        ("a", 0, SECOND),
        ("b", THIRD, 7),
        ("c", 7, 2**63 - 1),
        ("c", cut, cut + 1),
    ]
    gone = row(RATE.name, 1, (0, ("a",)), (SECOND, None))
    assert list(points.validities(gone)) == [("a", 0, SECOND)]


def test_at_each_of_many_snapshots_the_last_version_is_valid_that_it_sees() -> None:
    """Against each snapshot on its own, for versions and snapshots made up at random."""
    rng = random.Random(5)
    for _ in range(200):
        tx_ids = rng.sample(range(1, 12), rng.randint(1, 5))
        versions = [(tx_id, None if rng.random() < 0.2 else (f"of {tx_id}",)) for tx_id in tx_ids]
        made = tuple(
            Version(values, rng.choice((tx_id, tx_id, None)) if not commit else tx_id, commit, 0)
            for commit, (tx_id, values) in enumerate(versions)
        )
        history = RowHistory(RATE.name, "[1]", made)
        texts = {snapshot(rng) for _ in range(rng.randint(1, 6))}
        points = Points(texts)
        found = [one for one in points.validities(history) if one[1] < 0]
        for text in texts:
            number = points.number(text)
            valid = [value for value, first, end in found if first <= number < end]
            seen = history.values(history.place_in(DatabaseSnapshot.parse(text)))
            assert valid == ([] if seen is None else [*seen]), (made, text)


def snapshot(rng: random.Random) -> str:
    xmax = rng.randint(1, 13)
    hidden = sorted(rng.sample(range(1, xmax), rng.randint(0, min(3, xmax - 1))))
    return f"{min([*hidden, xmax])}:{xmax}:{','.join(map(str, hidden))}"


def test_nan_is_equal_to_nan_and_lists_by_their_elements() -> None:
    nan = float("nan")
    assert comparable([1.0, nan, None]) == comparable([1.0, float("nan"), None])
    assert comparable({"a": nan}) == comparable({"a": nan})
    assert comparable(nan) != comparable(0.0)
    assert comparable(-0.0) == comparable(0.0)


def history_of(
    folder: Path, plan: Plan, rows: list[tuple[str, int, int, str | None]]
) -> DeltaTable:
    """rows: table, key, commit, and the row as JSON."""
    uri, schema = str(folder / "history"), arrow_schema(HISTORY_COLUMNS)
    content = [
        {
            "table": table,
            "row_key": f"[{key}]",
            "op": "d" if text is None else "u",
            "row": text,
            "tx_id": commit,
            "commit_lsn": commit,
            "committed_at": AT,
        }
        for table, key, commit, text in rows
    ]
    AppendLog(uri, schema, HISTORY_PARTITION, 1).append(pa.Table.from_pylist(content, schema), 9, 0)
    return DeltaTable(uri)


def rate_json(id_: int, parent: int | None, rate: int) -> str:
    return f'{{"id": {id_}, "parent": {parent or "null"}, "rate": {rate}, "unit": "kg"}}'


def test_a_table_that_is_joined_with_itself_again_and_again_is_reached_to_the_end(
    tmp_path: Path,
) -> None:
    plan = plan_of_rates(tmp_path / "project", BY_GRANDPARENT)
    taken = f'"{NAMES.taken_at}": "2024-05-01T00:00:00Z"'
    fact = f'{{"{NAMES.id}": 1, "rate_id": 1, {taken}}}'
    rates = [(1, 2), (2, 3), (3, None), (4, None)]
    rows = [("public.rate", id_, FIRST, rate_json(id_, up, 5)) for id_, up in rates]
    again = ("public.rate", 3, FIRST, rate_json(3, None, 5))  # as after a crash
    later = ("public.rate", 3, SECOND, rate_json(3, None, 6))
    history = history_of(tmp_path, plan, [(str(USE.name), 1, FIRST, fact), later, *rows, again])
    found = reached_rows(HistoryReader(history, plan.tables), plan, {"[1]"})
    assert found.of(RATE.name).keys() == {"[1]", "[2]", "[3]"}
    assert [one.commit_lsn for one in found.of(RATE.name)["[3]"].versions] == [FIRST, SECOND]
    (change,) = between_in(plan, found).changes("paid")
    assert (change.row_key, change.columns) == ("[3]", {"rate": (5, 6)})


def test_a_row_of_the_history_that_the_catalog_does_not_fit_is_named(tmp_path: Path) -> None:
    plan = plan_of_rates(tmp_path / "project", BY_GRANDPARENT)
    history = history_of(tmp_path, plan, [(str(USE.name), 1, FIRST, '{"other": 1}')])
    with pytest.raises(LakehouseError, match=f"table {USE.name}.*write it again|catalog again"):
        reached_rows(HistoryReader(history, plan.tables), plan, {"[1]"})
