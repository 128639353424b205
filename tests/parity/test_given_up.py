"""A window whose changes an operator may have given up says so, whatever its verdict."""

import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lockstep.cdc.cuts import Cut
from lockstep.cdc.records import MESSAGES
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.cdc.transactions import OffsetRange
from lockstep.ledger import book
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity import check
from lockstep.parity.comparison import Compared, OtherModes
from lockstep.parity.given_up import described, facts_read_from, touching
from lockstep.parity.readiness import Readiness
from lockstep.parity.report import print_checks
from lockstep.parity.sides import Sides
from lockstep.parity_pages import view
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sources import given_up as room
from lockstep.sources.given_up import GivenUpRecords, GivenUpTransaction
from lockstep.streams import published
from lockstep.streams.lookup import LookupEnrichment
from lockstep.streams.modes import JOINED
from lockstep.streams.quarantine import Quarantine
from pizzeria.names import CHANGE_TOPIC, CLIENTS, MANIFEST, ORDERS, OUTBOX
from rich.console import Console

from tests.project import PROJECT_DIR

HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WINDOW = Window(NOON, NOON + HOUR)
READ_AT = WINDOW.end + timedelta(minutes=5)
PLAN = plan_named(PROJECT_DIR, MANIFEST)
OUTBOX_MODE, TEMPORAL = StreamMode.OUTBOX, StreamMode.TEMPORAL


def lost(
    table: str | None, committed: datetime | None, hour: datetime | None = None
) -> GivenUpRecords:
    """One record given up; hour: of its order, if it says that."""
    return GivenUpRecords(
        offsets=OffsetRange(100, 205),
        records=3,
        table=table,
        hour=hour or (committed and committed.replace(minute=0)),
        is_order_hour=hour is not None,
        committed_first=committed,
        committed_last=committed,
        transactions=(GivenUpTransaction(701, 7010, committed),),
        transaction_count=2,
        reason="renamed",
    )


def minutes(number: int) -> datetime:
    """So long after the window's beginning."""
    return NOON + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("one", "touches"),
    [
        (lost(OUTBOX, minutes(300), NOON), True),  # of the window's orders, whenever it committed
        (lost(OUTBOX, minutes(5), NOON - HOUR), False),
        (lost(OUTBOX, minutes(5), NOON + HOUR), False),
        (lost(OUTBOX, minutes(-1)), False),  # it had not begun
        (lost(OUTBOX, minutes(5)), True),
        (lost(OUTBOX, minutes(64)), True),  # until its run has read
        (lost(OUTBOX, minutes(66)), False),
        (lost(None, minutes(5)), True),  # of a table that is not known
        (lost(None, minutes(66)), False),
        (lost(None, None), True),  # nothing is known
        (lost(MESSAGES, minutes(5)), False),  # another mode reads them
        (lost(ORDERS, minutes(5), NOON), False),
        (lost(CLIENTS, minutes(5)), True),  # the proof of a drift lacks it
        (lost(CLIENTS, minutes(-600)), False),  # it joins with no history
    ],
)
def test_a_window_is_touched_by_its_hour_or_while_it_is_open(
    one: GivenUpRecords, touches: bool
) -> None:
    assert (touching([one], PLAN, WINDOW, OUTBOX_MODE, READ_AT) == [one]) is touches


@pytest.mark.parametrize(
    ("first", "last", "touches"),
    [(-30, 5, True), (5, 300, True), (-30, 300, True), (-30, -1, False), (66, 300, False)],
)
def test_a_window_is_touched_by_records_some_of_which_committed_while_it_was_open(
    first: int, last: int, touches: bool
) -> None:
    some = replace(lost(OUTBOX, minutes(first)), committed_last=minutes(last))
    assert (touching([some], PLAN, WINDOW, OUTBOX_MODE, READ_AT) == [some]) is touches


def test_a_window_that_is_read_again_is_open_for_longer() -> None:
    one = lost(OUTBOX, minutes(300))
    assert touching([one], PLAN, WINDOW, OUTBOX_MODE, READ_AT) == []
    assert touching([one], PLAN, WINDOW, OUTBOX_MODE, minutes(301)) == [one]


def test_a_change_of_a_dimension_touches_all_later_windows_of_modes_that_join_the_history() -> None:
    one = lost(CLIENTS, minutes(-600))
    touched = [mode for mode in StreamMode if touching([one], PLAN, WINDOW, mode, READ_AT)]
    assert touched == [StreamMode.TEMPORAL, StreamMode.TRANSACTION]
    assert touching([lost(CLIENTS, READ_AT + HOUR)], PLAN, WINDOW, TEMPORAL, READ_AT) == []


def test_each_mode_takes_the_orders_from_the_table_that_is_written_down() -> None:
    of_modes = {
        StreamMode.LOOKUP: LookupEnrichment(PLAN, pytest.fail),
        StreamMode.OUTBOX: published.outbox(PLAN),
        StreamMode.MESSAGE: published.message(PLAN),
    }
    joined = dict.fromkeys(JOINED, ORDERS)
    found = {mode: table for mode, one in of_modes.items() for table in one.wanted} | joined
    assert found == {mode: facts_read_from(PLAN, mode) for mode in found}


def test_records_and_transactions_are_named_up_to_a_few() -> None:
    assert described([]) == ""
    one = lost(OUTBOX, NOON)
    assert described([one]).endswith(
        "3 records of orders_outbox at offsets 100 to 205 (transactions 701 and 1 more)"
    )
    blind = replace(one, offsets=OffsetRange(7, 7), records=1, table=None, transactions=())
    assert described([blind]).endswith(
        "1 record of which nothing can be read at offset 7 (transaction unknown)"
    )
    assert described([one] * 5).endswith("; and 6 more records")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Records of the window's orders were given up, in the outbox."""
    monkeypatch.setattr(room, "topic_id", lambda *_: "first")
    settings = Settings(home=tmp_path)
    Quarantine(settings, "operator", CHANGE_TOPIC).give_up([lost(OUTBOX, minutes(5), NOON)])
    return settings


def ready(verdict: Verdict | None = None, reason: str = "") -> Readiness:
    cut = Cut("the run", "700:700:", 5_000, READ_AT)
    run = RunCommit(WINDOW, ReadMode.VIEW, 0, cut)
    return Readiness(run, 1, 1, 5_000, verdict, reason)


def compared_with(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    mode: StreamMode,
    counts: Mapping[DifferenceClass, int],
    ready: Readiness,
) -> check.Check:
    monkeypatch.setattr(check.Sides, "differing_columns", lambda _: [])
    monkeypatch.setattr(check.comparison, "compare", lambda *_: Compared(9, dict(counts), 0, []))
    return check.check_window(
        lambda: None, Sides(settings, PLAN, WINDOW, Mode(mode), ready), OtherModes()
    )


@pytest.mark.parametrize(
    ("counts", "verdict", "begins"),
    [
        ({}, Verdict.PASS, "given up with"),
        (
            {DifferenceClass.MISSING_IN_STREAM: 2},
            Verdict.FAIL,
            "2 missing_in_stream; given up with",
        ),
    ],
)
def test_the_line_and_the_page_of_a_touched_window_name_what_was_given_up(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    counts: dict[DifferenceClass, int],
    verdict: Verdict,
    begins: str,
) -> None:
    compared_with(settings, monkeypatch, OUTBOX_MODE, counts, ready())
    (line,) = book.lines(settings)
    assert line.verdict is verdict
    assert line.reason.startswith(begins)
    assert "offsets 100 to 205 (transactions 701 and 1 more)" in line.reason
    page = view.hour(settings, PLAN, WINDOW, OUTBOX_MODE, lambda *_: "")
    assert page["line"].reason == line.reason


def test_the_terminal_names_it_next_to_the_counts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {DifferenceClass.CHANGED_AFTER_CUT: 1}
    passed = compared_with(settings, monkeypatch, OUTBOX_MODE, counts, ready())
    shown = io.StringIO()
    print_checks(Console(file=shown, width=300), PLAN.row_keys, [passed])
    assert f"outbox: {passed.line.reason}" in shown.getvalue()


def test_other_modes_and_verdicts_without_a_comparison(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = compared_with(settings, monkeypatch, TEMPORAL, {}, ready())
    assert (untouched.line.verdict, untouched.line.reason) == (Verdict.PASS, "")
    behind = ready(Verdict.WAITING, "the stream is behind")
    waiting = compared_with(settings, monkeypatch, OUTBOX_MODE, {}, behind)
    assert waiting.line.reason.startswith("the stream is behind; given up with")


def test_a_repair_reads_the_database_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Quarantine(settings, "operator", CHANGE_TOPIC).give_up([lost(ORDERS, READ_AT + HOUR)])
    first = compared_with(settings, monkeypatch, TEMPORAL, {}, ready())
    assert first.line.reason == ""
    cut = Cut("a repair", "900:900:", 9_000, READ_AT + 2 * HOUR)
    repaired = replace(ready(), repairs=(RepairCommit(WINDOW, "the run", (1,), 1, "me", cut),))
    second = compared_with(settings, monkeypatch, TEMPORAL, {}, repaired)
    assert "of orders at offsets 100 to 205" in second.line.reason
