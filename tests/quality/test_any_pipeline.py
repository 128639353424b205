"""The checks of a pipeline of another shape: other names, two key columns, its own checks."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.expectations import ARGUMENTS
from lockstep.pipeline.result_tables import CHANGE_COLUMNS, CHANGE_PARTITION
from lockstep.quality.check import check_table
from lockstep.quality.frames import WrittenRows, rows_frame
from lockstep.quality.judgement import Judged, judged
from lockstep.quality.row_sql import rows_sql
from lockstep.quality.stream_check import CHANGES, change_parts
from lockstep.quality.suite import row_checks
from lockstep.settings import Settings
from lockstep.sources import delta

from tests.quality.samples import (
    CHECKS,
    COLUMNS,
    HOUR,
    HOURLY,
    RUN,
    WHOLE,
    hourly_table,
    plan_of_samples,
    sample,
)

FAIL, WARN, PASS = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.PASS
SECOND = timedelta(seconds=1)


def not_passed(report) -> dict[str, CheckStatus]:
    return {check.name: check.status for check in report.checks if check.status is not PASS}


def check(tmp_path, rows, **samples):
    plan = plan_of_samples(tmp_path, **samples)
    table = hourly_table(tmp_path, rows)
    return check_table(Settings(home=tmp_path), plan, table, HOURLY, HOUR)


def test_faultless_rows_pass_each_check(tmp_path):
    report = check(tmp_path, [sample("L-1", 1), sample("L-1", 2), sample("L-2", 1)])

    assert (report.status, report.rows, report.noun) == (PASS, 3, "samples")
    assert [one.name for one in report.checks] == [
        "schema",
        "no order lost",
        "The lot present",
        "nr present",
        "The lot, nr unique",
        "taken_at present",
        "taken_at in window",
        "partition is its hour",
        "one run wrote it",
        "marks plausible",
        "marked",
        "heavy enough",
        "lot of ours",
    ]
    assert {one.expected for one in report.checks} >= {"at most {9.5}", f"{RUN}"}


def test_each_fault_is_found_and_its_rows_are_named_by_the_whole_key(tmp_path):
    rows = [
        sample("L-1", 1),
        sample("L-1", 1),
        sample("L-1", None),
        sample("L-2", 1, marks=[2, 10]),
        sample("L-2", 2, marks=[]),
        sample("L-2", 3, marks=None),
        sample("L-2", 4, weight=Decimal("0.250")),
        sample("M-2", 5),
        sample("L-2", 6, taken_at=HOUR.end),
    ]
    report = check(tmp_path, rows)

    found = {one.name: (one.status, one.examples) for one in report.checks if one.status != PASS}
    assert found == {
        "nr present": (FAIL, ('["L-1",null]',)),
        "The lot, nr unique": (FAIL, ('["L-1",1]', '["L-1",1]')),
        "taken_at in window": (FAIL, ('["L-2",6]',)),
        "marks plausible": (WARN, ('["L-2",1]',)),
        "marked": (WARN, ('["L-2",2]', '["L-2",3]')),
        "heavy enough": (FAIL, ('["L-2",4]',)),
        "lot of ours": (FAIL, ('["M-2",5]',)),
    }


def test_an_empty_window_passes(tmp_path):
    assert check(tmp_path, []).status is PASS


DERIVED = {
    "text": "CASE WHEN nr > 1 THEN 'L' || nr END",
    "day": "CASE WHEN nr > 1 THEN CAST(taken_at AS DATE) END",
    "moment": "CASE WHEN nr > 1 THEN taken_at END",
    "flag": "CASE WHEN nr > 1 THEN nr > 2 END",
}
OF_EACH_TYPE = [
    ("text", "ExpectColumnValuesToNotBeNull", "{ mostly = 0.6 }"),
    ("text", "ExpectColumnValuesToBeUnique", "{}"),
    ("text", "ExpectColumnValuesToBeInSet", '{ value_set = ["L2", "L3"] }'),
    ("text", "ExpectColumnValuesToNotBeInSet", '{ value_set = ["L1"] }'),
    ("text", "ExpectColumnValuesToMatchRegex", '{ regex = "^L[0-9]$" }'),
    ("text", "ExpectColumnValuesToNotMatchRegex", '{ regex = "^M" }'),
    ("text", "ExpectColumnValueLengthsToBeBetween", "{ max_value = 2 }"),
    ("text", "ExpectColumnValueLengthsToEqual", "{ value = 2 }"),
    ("none", "ExpectColumnValuesToBeNull", "{}"),
    ("weight", "ExpectColumnValuesToBeInSet", "{ value_set = [0.5] }"),
    ("day", "ExpectColumnValuesToBeBetween", "{ min_value = 2024-05-01 }"),
    ("nr", "ExpectColumnValuesToBeInSet", "{ value_set = [1, 2, 3] }"),
    ("moment", "ExpectColumnValuesToBeBetween", "{ min_value = 2024-05-01T00:00:00Z }"),
    ("flag", "ExpectColumnValuesToBeInSet", "{ value_set = [true, false] }"),
    ("flag", "ExpectColumnValuesToNotBeNull", "{ mostly = 0.6 }"),
]


@pytest.mark.parametrize("count", [0, 3])
def test_each_expectation_can_be_evaluated_over_scalars_with_nulls_and_over_none(tmp_path, count):
    derived = "".join(
        f'[[derived]]\nname = "{name}"\nsql = "{sql}"\n'
        for name, sql in (DERIVED | {"none": "CAST(NULL AS INT)"}).items()
    )
    checks = "".join(
        f'[[check]]\nname = "{place}"\nseverity = "fail"\ncolumn = "{column}"\n'
        f'expectation = "{expectation}"\narguments = {arguments}\nexpected = "all"\n'
        for place, (column, expectation, arguments) in enumerate(OF_EACH_TYPE)
    )
    rows = [sample("L-1", nr) for nr in range(1, count + 1)]
    report = check(tmp_path, rows, checks=f"format_version = 1\n{derived}{checks}")
    assert {expectation for _, expectation, _ in OF_EACH_TYPE} == set(ARGUMENTS)
    assert report.failures == []


def test_without_a_time_nothing_is_checked_of_windows(tmp_path):
    plan = plan_of_samples(tmp_path, has_time=False)
    table = hourly_table(tmp_path, [sample("L-1", 1), sample("L-2", 1, taken_at=None)], WHOLE)

    frame = rows_frame(WrittenRows(table, HOUR, [RUN]), plan)

    assert sorted(frame.to_pylist(), key=lambda row: row["The lot"]) == [
        {
            "The lot": lot,
            "nr": 1,
            "grams": 500.0,
            "run_id": RUN,
            "highest mark": 7,
            "mark_count": 2,
        }
        for lot in ("L-1", "L-2")
    ]
    names = [one.name for one in row_checks(plan)]
    assert names[:5] == [
        "no order lost",
        "The lot present",
        "nr present",
        "The lot, nr unique",
        "one run wrote it",
    ]


def test_a_time_that_is_a_date_is_compared_as_its_first_instant(tmp_path):
    plan = plan_of_samples(tmp_path)
    rows = [sample("L-1", 1, taken_at=HOUR.start.date())]
    table = hourly_table(tmp_path, rows, HOURLY | {"taken_at": "date"})
    result = replace(plan.result, columns=COLUMNS | {"taken_at": "date"})
    midnight = HOUR.start.replace(hour=0)
    day = Window(midnight, midnight + timedelta(days=1))

    sql = rows_sql(result, plan.checks, day, ["another run"])

    [row] = delta.run_query(sql, {"hourly": table}).read_all().to_pylist()
    assert (row["taken_at"], row["is_in_its_partition"]) == (midnight, True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"max(item)"',
            '"max(itme)"',
            (
                r"include/sql/lots/checks.toml:6: derived\[0\].sql: `max\(itme\)` cannot be used: "
                r".*No field named itme"
            ),
        ),
        (
            '"weight * 1000 -- of kilograms"',
            '"nr / (nr - nr)"',
            r"checks.toml:15: derived\[2\].sql: `nr / \(nr - nr\)` cannot be used: .*ivide by zero",
        ),
        (
            '"weight * 1000 -- of kilograms"',
            '"marks"',
            (
                r"checks.toml:15: derived\[2\].sql: `marks` cannot be used: it gives list<.*>, "
                "and a check is about a scalar"
            ),
        ),
        (
            '"lot of ours"',
            '"The lot, nr unique"',
            (
                r"checks.toml:42: check\[3\].name: is the name of a check that every pipeline has: "
                "choose another"
            ),
        ),
    ],
)
def test_sql_and_names_of_no_use_are_named_with_their_line(tmp_path, old, new, message):
    assert CHECKS.count(old) == 1
    with pytest.raises(ManifestError, match=message):
        check(tmp_path, [sample("L-1", 1)], checks=CHECKS.replace(old, new))


def test_a_table_that_cannot_be_read_is_no_fault_of_the_authors(tmp_path):
    plan = plan_of_samples(tmp_path)
    table = hourly_table(tmp_path, [sample("L-1", 1)])
    for file in table.file_uris():
        (tmp_path / "lots" / file).unlink()
    with pytest.raises(LakehouseError, match="cannot be read from"):
        rows_frame(WrittenRows(table, HOUR, [RUN]), plan)


def change(lot: str, nr: int, position: int, **values):
    """A faultless change of a sample of HOUR, but for the values."""
    times = {
        "committed_at": HOUR.start + position * SECOND,
        "captured_at": HOUR.start + position * SECOND,
        "seen_at": HOUR.start + position * SECOND,
        "written_at": HOUR.start + position * SECOND + SECOND / 2,
    }
    own = {"op": "c", "tx_id": position, "commit_lsn": position, "is_raced": False}
    return sample(lot, nr) | own | times | {"commit_date": HOUR.start.date()} | values


def judged_changes(tmp_path, rows):
    plan = plan_of_samples(tmp_path)
    columns = COLUMNS | CHANGE_COLUMNS
    uri = str(tmp_path / "log")
    table = pa.Table.from_pylist(rows, arrow_schema(columns))
    write_deltalake(uri, table, partition_by=[CHANGE_PARTITION])
    parts = change_parts(DeltaTable(uri), plan, columns, HOUR)
    facts = {"raced_values": [False], "raced": "no row marked"}
    what = Judged(HOUR, "temporal", RUN, CHANGES)
    return judged(Settings(home=tmp_path), what, parts, facts, 0.0)


DELETED = dict.fromkeys(("taken_at", "weight", "marks"), None) | {"op": "d"}


def test_changes_that_share_a_part_of_the_key_are_of_different_rows(tmp_path):
    rows = [
        change("L-1", 1, 30),
        change("L-1", 2, 20, written_at=HOUR.start + 40 * SECOND),
        change("L-2", 1, 30),
        change("L-1", 1, 60, **DELETED),
        change("L-9", 1, 50, taken_at=HOUR.end, op="x"),
    ]
    report = judged_changes(tmp_path, rows)
    assert (report.rows, not_passed(report)) == (4, {"delivered within seconds": WARN})


def test_faults_of_changes_are_found_by_the_whole_key(tmp_path):
    rows = [
        change("L-1", 1, 30),
        change("L-1", 1, 30),
        change("L-2", 1, 40, written_at=HOUR.start + 41 * SECOND),
        change("L-2", 1, 35, written_at=HOUR.start + 36 * SECOND, op="u"),
        change("L-2", 1, 20, written_at=HOUR.start + 42 * SECOND, op="u"),
        change("L-3", 1, 30, **DELETED),
        change("L-3", 1, 25),
        change("L-4", None, 30),
        change("L-5", 1, 30),
        change("L-5", 1, 50, **(DELETED | {"marks": []})),
    ]
    report = judged_changes(tmp_path, rows)
    examples = {one.name: one.examples for one in report.checks if one.status is FAIL}
    assert examples == {
        "nr present": ('["L-4",null]',),
        "one change at a position": ('["L-1",1]', '["L-1",1]'),
        "positions increase": ('["L-2",1]',),
        "deletes name nothing": ('["L-5",1]',),
    }
