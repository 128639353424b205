"""Each check of a stream's window turns red by its own fault, and by no other.

As in test_check.py, faults that different checks must find share a window, for a run of Great
Expectations takes its time.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.errors import LakehouseError
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import CheckStatus, DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.policy import Policy
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import CHANGE_PARTITION
from lockstep.quality import check_stream, stream_check
from lockstep.quality.stream_check import (
    CHANGE_SUITE,
    newest_comparison,
    stream_failures,
)
from lockstep.quality.stream_suite import change_checks
from lockstep.settings import Settings
from pizzeria.names import MANIFEST, change_log_table

from tests.pizzeria_tables import CHANGE_LOG_COLUMNS, change_log_columns
from tests.project import PROJECT_DIR
from tests.soak.change_log_tables import SCHEMA, change

FAIL, WARN, PASS = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.PASS
DAY = datetime(2024, 5, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def window(hour: int) -> Window:
    return Window(DAY + timedelta(hours=hour), DAY + timedelta(hours=hour + 1))


def changes_of(hour: int) -> list[dict]:
    """Ten orders: one of the snapshot, eight created, one updated, one deleted; none at fault.

    Ids and positions begin with the hour. The update is row 10, the delete row 11.
    """
    first = (hour + 1) * 1_000
    ops = [(place, "u" if place in (10, 11) else "c") for place in range(12)]
    rows = []
    for place, op in ops:
        committed = window(hour).start + timedelta(minutes=place)
        position = 0 if place == 0 else first + place
        rows.append(
            change(first + (place - 9 if place > 9 else place), position)
            | {
                "order_time": window(hour).start,
                "op": op,
                "committed_at": committed,
                "captured_at": committed + SECOND / 10,
                "seen_at": committed + SECOND / 5,
                "written_at": committed + SECOND / 2,
                "commit_date": committed.date(),
            }
        )
    rows[0]["written_at"] += timedelta(seconds=30)  # a snapshot is late by nature
    rows[11] |= dict.fromkeys(("order_time", "client_name", "table_name", "pizzas")) | {"op": "d"}
    return rows


def with_value(place: int, **values: object):
    def fault(rows: list[dict]) -> list[dict]:
        rows[place] |= values
        return rows

    return fault


def with_time(place: int, name: str, seconds: float):
    def fault(rows: list[dict]) -> list[dict]:
        rows[place][name] += timedelta(seconds=seconds)
        return rows

    return fault


def with_one_twice(rows: list[dict]) -> list[dict]:
    return [*rows, dict(rows[5])]


def with_an_earlier_one_later(rows: list[dict]) -> list[dict]:
    """The update of order 1 is committed before, and written after, its creation."""
    rows[1]["commit_lsn"], rows[10]["commit_lsn"] = rows[10]["commit_lsn"], rows[1]["commit_lsn"]
    return rows


FAULTS = {
    "nulls": (
        [with_value(3, order_id=None), with_value(4, op=None), with_value(5, commit_lsn=None)],
        {"order_id present": FAIL, "op present": FAIL, "position present": FAIL},
    ),
    "unknown op, a time missing, twice at a position": (
        [with_value(3, op="x"), with_value(4, captured_at=None), with_one_twice],
        {"op known": FAIL, "times present": FAIL, "one change at a position": FAIL},
    ),
    "positions go back, no transaction, delete that names a client": (
        [with_an_earlier_one_later, with_value(4, tx_id=None), with_value(11, client_name="Ada")],
        {"positions increase": FAIL, "transaction known": FAIL, "deletes name nothing": FAIL},
    ),
    "another date, marked as raced, written before the commit": (
        [
            with_value(3, commit_date=DAY.date() + timedelta(days=1)),
            with_value(4, is_raced=True),
            with_time(5, "written_at", -1.6),
        ],
        {
            "partition is its date": FAIL,
            "raced only by the look-up": FAIL,
            "written after the commit": FAIL,
        },
    ),
    "late, held up": (
        [with_time(3, "committed_at", -5), with_time(4, "seen_at", -600)],
        {"delivered within seconds": WARN, "not held up": FAIL},
    ),
    "late alone": ([with_time(3, "committed_at", -5)], {"delivered within seconds": WARN}),
}


def write(settings: Settings, rows: list[dict], mode: StreamMode = StreamMode.OUTBOX) -> None:
    write_deltalake(
        settings.table_uri(change_log_table(mode)),
        pa.Table.from_pylist(rows, arrow_schema(change_log_columns(mode))),
        mode="append",
        partition_by=[CHANGE_PARTITION],
    )


def line(hour: int, *, verdict: Verdict = Verdict.PASS, **values: object) -> Comparison:
    return Comparison(
        **{
            "check_id": f"check {hour}",
            "window": window(hour),
            "mode": StreamMode.OUTBOX,
            "verdict": verdict,
            "reason": "",
            "run_id": "a run",
            "cut_snapshot": "700:720:",
            "cut_lsn": 5000,
            "batch_version": 0,
            "stream_version": 0,
            "stream_frontier": 100_000,
            "orders_compared": 10,
            "definition": "abc",
            "checked_at": window(hour).end,
            "seconds": 1.5,
            **values,
        }
    )


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> Settings:
    """A change log with an hour for each entry, all in one version."""
    settings = Settings(home=tmp_path_factory.mktemp("faulty"))
    log = []
    for hour, (faults, _) in enumerate(FAULTS.values()):
        rows = changes_of(hour)
        for fault in faults:
            rows = fault(rows)
        log += rows
    write(settings, log)
    return settings


def not_passed(report) -> dict[str, CheckStatus]:
    return {check.name: check.status for check in report.checks if check.status is not PASS}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_turns_its_check_red_and_no_other(faulty, name):
    expected = FAULTS[name][1]

    report = check_stream(faulty, line(list(FAULTS).index(name)))

    assert not_passed(report) == expected
    assert report.status is (FAIL if FAIL in expected.values() else WARN)
    assert len(stream_failures(report)) == list(expected.values()).count(FAIL)


def test_every_check_has_its_fault():
    planted = {check for _, expected in FAULTS.values() for check in expected}
    checks = change_checks(plan_named(PROJECT_DIR, MANIFEST).result)
    assert planted == {check.name for check in checks}


@pytest.fixture
def settings(tmp_path) -> Settings:
    """A faultless hour of the outbox."""
    settings = Settings(home=tmp_path)
    write(settings, changes_of(0))
    return settings


def test_faultless_window_passes_in_one_gx_checkpoint_and_is_in_the_docs(settings):
    report = check_stream(settings, line(0, counts={DifferenceClass.DIMENSION_DRIFT: 3}))
    assert (report.status, report.rows, report.warnings) == (PASS, 12, [])
    assert [suite for suite, _ in report.by_suite] == ["parity", "change_log_columns", "change_log"]
    gx_checkpoints = list((settings.home / "quality" / "gx" / "checkpoints").iterdir())
    assert [path.stem for path in gx_checkpoints] == ["orders_enriched__outbox_window"]
    drift = next(check for check in report.checks if check.name == "dimension_drift")
    assert drift.observed == "3 orders"
    assert "by design of outbox" in drift.expected
    index = (report.data_docs / "index.html").read_text()
    assert report.data_docs_page in index
    assert "<td>orders_enriched__outbox</td>" in index


def test_a_comparison_checked_again_adds_a_result_and_changes_nothing(settings):
    first, again = (check_stream(settings, line(0)) for _ in range(2))
    assert first.checks == again.checks
    assert first.data_docs_page != again.data_docs_page
    index = (again.data_docs / "index.html").read_text()
    assert first.data_docs_page in index
    assert again.data_docs_page in index


def test_only_changes_up_to_the_frontier_that_was_compared_are_judged(settings):
    """What an hour's orders become later is the next comparison's; versions need not be kept."""
    frontier = max(row["commit_lsn"] for row in changes_of(0))
    later = with_value(3, op="x", commit_lsn=frontier + 1)(changes_of(0))[3]
    write(settings, [later])
    assert check_stream(settings, line(0, stream_frontier=frontier)).status is PASS
    assert "op known" in not_passed(check_stream(settings, line(0, stream_frontier=frontier + 1)))


def test_a_mode_without_a_table_is_refused(settings):
    with pytest.raises(LakehouseError, match="no Delta table"):
        check_stream(settings, line(0, mode=StreamMode.TEMPORAL))


def test_empty_window_passes(settings):
    report = check_stream(settings, line(5))
    assert (report.status, report.rows) == (PASS, 0)


def test_the_look_up_may_mark_rows_as_raced(settings):
    write(settings, with_value(3, is_raced=True)(changes_of(0)), StreamMode.LOOKUP)
    assert check_stream(settings, line(0, mode=StreamMode.LOOKUP)).status is PASS


@pytest.mark.parametrize(
    ("mode", "kinds", "failed"),
    [
        (StreamMode.OUTBOX, [DifferenceClass.LOOKUP_RACE], {"lookup_race"}),
        (StreamMode.LOOKUP, [DifferenceClass.LOOKUP_RACE], set()),
        (
            StreamMode.LOOKUP,
            list(DifferenceClass),
            {"duplicate_in_stream", "missing_in_stream", "missing_in_batch", "value_mismatch"},
        ),
    ],
)
def test_what_the_policy_does_not_tolerate_fails(settings, mode, kinds, failed):
    write(settings, changes_of(0), StreamMode.LOOKUP)
    report = check_stream(settings, line(0, mode=mode, counts=dict.fromkeys(kinds, 2)))
    assert not_passed(report) == dict.fromkeys(failed, FAIL)
    assert all(f"{kind}: 2 orders; expected none" in report.failures for kind in failed)
    assert stream_failures(report) == []


def test_more_raced_orders_than_the_policy_allows_fail(settings):
    write(settings, changes_of(0), StreamMode.LOOKUP)
    policy = Policy(plan_named(PROJECT_DIR, MANIFEST).manifest.tolerate)
    most = policy.limit(StreamMode.LOOKUP, DifferenceClass.LOOKUP_RACE, 10)
    counts = {DifferenceClass.LOOKUP_RACE: most + 1}
    report = check_stream(settings, line(0, mode=StreamMode.LOOKUP, counts=counts))
    assert not_passed(report) == {"lookup_race": FAIL}
    assert f"lookup_race: {most + 1} orders; expected at most {most}" in report.failures[0]


def test_a_failed_verdict_fails_whatever_the_counts_and_the_table_is_judged_too(settings):
    report = check_stream(settings, line(0, verdict=Verdict.FAIL))
    assert report.failures == ["verdict: fail; expected pass"]
    assert report.rows == 12


def test_other_columns_fail_before_any_row_is_read(tmp_path):
    settings = Settings(home=tmp_path)
    without = SCHEMA.remove(SCHEMA.get_field_index("is_raced"))
    write_deltalake(
        settings.table_uri(change_log_table(StreamMode.OUTBOX)),
        pa.Table.from_pylist(changes_of(0), without),
    )
    report = check_stream(settings, line(0))
    assert (report.rows, not_passed(report)) == (0, {"schema": FAIL})
    assert CHANGE_SUITE not in {check.suite for check in report.checks}
    total = len(CHANGE_LOG_COLUMNS) + 1
    assert stream_failures(report) == [
        (
            f"schema: all but 2 of {total} columns (is_raced, partitioned by); "
            "expected columns and types as in result.lock, and Lockstep's own"
        )
    ]


def test_the_newest_line_with_a_verdict_to_judge_is_found(tmp_path):
    settings = Settings(home=tmp_path)
    with pytest.raises(LakehouseError, match="never compared with outbox"):
        newest_comparison(settings, window(0), StreamMode.OUTBOX)
    for place, verdict in enumerate((Verdict.FAIL, Verdict.PASS, Verdict.WAITING)):
        checked_at = window(0).end + place * SECOND
        book.append(settings, line(0, verdict=verdict, checked_at=checked_at), [])
    book.append(settings, line(1), [])
    assert newest_comparison(settings, window(0), StreamMode.OUTBOX).verdict is Verdict.PASS
    assert stream_check.modes_compared(settings, window(0)) == [StreamMode.OUTBOX]
    assert stream_check.modes_compared(settings, window(2)) == []
