"""A switch of the feed: what refuses it, what it changes, and its line in the ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from lockstep.errors import LockstepError, WriterBusyError
from lockstep.ledger import book, cutovers
from lockstep.ledger.entries import Comparison
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.manifest import Schedule
from lockstep.pipeline.result import write_result
from lockstep.publish import conditions, formatting
from lockstep.publish import switch as cutover
from lockstep.publish.errors import CutoverRefusedError
from lockstep.publish.step import step
from lockstep.publish.table import fed_of, open_or_create
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from pizzeria.names import ORDERS_ENRICHED

from tests.publish.shop import PLAN, Shop, hour, published, version_of

OUTBOX = StreamMode.OUTBOX
AS_OF = hour(2).end + timedelta(minutes=5)
"""The last window that is due is hour 2."""


@pytest.fixture
def shop(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Three hours published by the batch, and a stream that runs, began in hour 1, and is ahead."""
    monkeypatch.setattr(conditions, "require_running", lambda *_: None)
    monkeypatch.setattr(conditions, "FRONTIER_SECONDS_MAX", 0.2)
    shop = Shop(settings)
    for number in range(3):
        for _ in range(4):
            shop.order(number)
        if number == 0:
            shop.begin_capture(OUTBOX, with_snapshot=False)
        shop.run(hour(number))
    shop.change(5)
    shop.cancel(6)
    shop.stream(OUTBOX)
    step(settings, PLAN)
    return shop


def comparison(window: Window, verdict: Verdict, mode: StreamMode = OUTBOX) -> Comparison:
    """A line of the ledger."""
    return Comparison(
        check_id=f"{window}",
        window=window,
        mode=mode,
        verdict=verdict,
        stream_frontier=1,
        orders_compared=1,
        checked_at=window.end,
        seconds=0.1,
        **dict.fromkeys(("reason", "run_id", "cut_snapshot", "definition"), ""),
        **dict.fromkeys(("cut_lsn", "batch_version", "stream_version"), 1),
    )


def judge(settings: Settings, *verdicts: Verdict | None, mode: StreamMode = OUTBOX) -> None:
    """A line for each hour, from hour 0 on; None for an hour that was not compared."""
    for number, verdict in enumerate(verdicts):
        if verdict is not None:
            book.append(settings, comparison(hour(number), verdict, mode), [])


def switch(settings: Settings, feed: str, windows: int = 3) -> cutovers.Cutover:
    return cutover.switch(settings, PLAN, feed, windows, "the owner", AS_OF)


PASS, FAIL, WAITING = Verdict.PASS, Verdict.FAIL, Verdict.WAITING


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        ((), "no window of outbox has passed"),
        ((FAIL, FAIL), "no window of outbox has passed"),
        ((PASS, FAIL, PASS), r"1 of the 3 windows.*\[2026-03-01T23.*as fail.*parity check --start"),
        ((PASS, PASS, FAIL), r"00:00:00\+00:00 only.*\[2026-03-02T00.*came out as fail"),
        ((PASS, PASS, WAITING), "came out as waiting"),
        ((PASS, None, PASS), r"1 of the 3.*up to 2026-03-02T00:00:00\+00:00 was not compared"),
        ((PASS, PASS), r"not through the last window that is due.*was not compared yet"),
        ((FAIL, PASS, PASS), r"2 of the 3 windows asked for: \[2026-03-01T22.*came out as fail"),
    ],
)
def test_a_stream_that_is_not_verified_is_refused(
    settings: Settings, shop: Shop, verdicts: tuple[Verdict | None, ...], why: str
) -> None:
    judge(settings, *verdicts)
    judge(settings, PASS, PASS, PASS, mode=StreamMode.TEMPORAL)  # another's proof is none
    before = version_of(settings)
    for ask in (switch, lambda *_: cutover.plan_switch(settings, PLAN, OUTBOX, 3, AS_OF)):
        with pytest.raises(CutoverRefusedError, match=why):
            ask(settings, OUTBOX)
    assert version_of(settings) == before
    assert cutovers.lines(settings) == []


@pytest.mark.parametrize(
    "verdicts", [(FAIL, PASS, PASS), (None, PASS, PASS), (Verdict.NOT_COVERED, PASS, PASS)]
)
def test_a_gap_before_the_windows_asked_for_is_not_in_the_way(
    settings: Settings, shop: Shop, verdicts: tuple[Verdict | None, ...]
) -> None:
    book.append(settings, comparison(hour(-3), PASS), [])
    judge(settings, *verdicts)
    line = switch(settings, OUTBOX, windows=2)
    assert (line.verified_since, line.verified_through) == (hour(1).start, hour(2).end)


def test_a_verified_stream_feeds_in_one_commit_and_the_ledger_says_so(
    settings: Settings, shop: Shop
) -> None:
    judge(settings, PASS, PASS, PASS)
    before, old = version_of(settings), published(settings)
    assert cutover.plan_switch(settings, PLAN, OUTBOX, 3, AS_OF).rows == len(old) == 12
    line = switch(settings, OUTBOX)
    assert version_of(settings) == before + 1
    new = published(settings)
    assert set(old) - set(new) == {6}  # cancelled after its hour's run
    assert {i for i, (_, feed, _) in new.items() if feed == "batch"} == {1, 2, 3, 4}
    assert {i: row for i, (row, *_) in new.items()} == shop.now
    assert line == cutovers.lines(settings)[-1]
    assert (line.from_feed, line.to_feed, line.approved_by) == ("batch", "outbox", "the owner")
    assert (line.lsn, line.published_version) == (shop.lsn, before + 1)
    assert (line.rows_before, line.rows_after) == (12, 11)
    assert (line.verified_since, line.verified_through) == (hour(0).start, hour(2).end)
    assert "batch → outbox" in formatting.of_cutover(line)


def test_back_to_the_batch_is_one_commit_that_needs_no_proof(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(settings, PASS, PASS, PASS)
    old = published(settings)
    switch(settings, OUTBOX)
    late, new = shop.order(2), shop.order(3)
    shop.stream(OUTBOX)
    step(settings, PLAN)
    assert {late, new} <= set(published(settings))
    judge(settings, FAIL, FAIL, FAIL)
    before = version_of(settings)
    line = switch(settings, "batch")
    assert version_of(settings) == before + 1
    back = published(settings)
    assert {i: one for i, one in back.items() if i != new} == old
    assert back[new][1] == "outbox"  # no run has written its hour yet
    assert (line.lsn, line.verified_since) == (shop.lsn, None)
    shop.run(hour(3))
    step(settings, PLAN)
    assert published(settings)[new][1] == "batch"


def test_what_the_batch_has_not_published_yet_is_not_lost(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream does not know an order of before its time, and no step has published it."""
    monkeypatch.setattr(conditions, "require_running", lambda *_: None)
    shop = Shop(settings)
    shop.order(0)
    shop.begin_capture(OUTBOX, with_snapshot=False)
    shop.order(1)
    shop.run(hour(0))
    shop.stream(OUTBOX)
    judge(settings, PASS, PASS, PASS)
    switch(settings, OUTBOX)
    assert {i: row for i, (row, *_) in published(settings).items()} == shop.now


def test_a_stream_that_has_not_passed_the_last_cut_is_refused(
    settings: Settings, shop: Shop
) -> None:
    judge(settings, PASS, PASS, PASS)
    shop.run(hour(2))
    step(settings, PLAN)
    before = version_of(settings)
    with pytest.raises(
        CutoverRefusedError, match=f"not yet the last hourly run's cut at {shop.lsn}"
    ):
        switch(settings, OUTBOX)
    assert version_of(settings) == before
    shop.stream(OUTBOX)
    switch(settings, OUTBOX)


def test_a_stream_behind_the_one_that_feeds_is_refused(settings: Settings, shop: Shop) -> None:
    for mode in (OUTBOX, StreamMode.TEMPORAL):
        judge(settings, PASS, PASS, PASS, mode=mode)
    shop.stream(StreamMode.TEMPORAL)
    switch(settings, OUTBOX)
    shop.order(3)
    shop.stream(OUTBOX)
    step(settings, PLAN)
    with pytest.raises(CutoverRefusedError, match="not yet what outbox has published"):
        switch(settings, StreamMode.TEMPORAL)
    shop.stream(StreamMode.TEMPORAL)
    assert switch(settings, StreamMode.TEMPORAL).from_feed == "outbox"


def test_a_stream_that_stands_still_is_refused(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    judge(settings, PASS, PASS, PASS)
    with pytest.raises(CutoverRefusedError, match="the stream is stopped"):
        switch(settings, OUTBOX)


def test_the_feed_that_it_has_already_is_refused(settings: Settings, shop: Shop) -> None:
    with pytest.raises(CutoverRefusedError, match="fed by batch already"):
        switch(settings, "batch")


def test_without_an_hourly_table_the_batch_takes_over_what_is_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "require_running", lambda *_: None)
    shop = Shop(settings)
    shop.order(0)
    shop.stream(OUTBOX)
    judge(settings, PASS, PASS, PASS)
    switch(settings, OUTBOX)
    switch(settings, "batch")
    assert list(published(settings)) == [1]
    assert not step(settings, PLAN).has_published


def test_a_second_writer_waits_and_is_named(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(settings, PASS, PASS, PASS)
    monkeypatch.setattr(cutover, "WRITER_SECONDS_MAX", 0.1)
    with sole_writer(settings, ORDERS_ENRICHED):
        for act in (lambda: step(settings, PLAN), lambda: switch(settings, OUTBOX)):
            with pytest.raises(WriterBusyError):
                act()
    assert fed_of(open_or_create(settings, PLAN.result)).feed == "batch"


def test_a_table_of_another_result_is_refused_with_the_columns_and_the_remedy(
    settings: Settings, shop: Shop
) -> None:
    before = version_of(settings)
    wider = {**PLAN.result.columns, "client_name": "binary", "tip": "int"}
    other = replace(PLAN, result_lock=write_result(wider, PLAN.name, PLAN.version))
    for act in (
        lambda: step(settings, other),
        lambda: cutover.plan_switch(settings, other, OUTBOX, 3, AS_OF),
        lambda: cutover.switch(settings, other, OUTBOX, 3, "the owner", AS_OF),
    ):
        with pytest.raises(
            PipelineError, match=r"client_name, tip differ.*move the table's folder"
        ):
            act()
    assert version_of(settings) == before


def test_the_line_of_a_killed_switch_is_written_later(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(settings, PASS, PASS, PASS)

    def die(*_: object) -> None:
        raise LockstepError("killed")

    with monkeypatch.context() as killing:
        killing.setattr(cutovers, "append", die)
        with pytest.raises(LockstepError, match="killed"):
            switch(settings, OUTBOX)
    assert fed_of(open_or_create(settings, PLAN.result)).feed == "outbox"
    assert cutovers.lines(settings) == []
    for _ in range(2):
        cutover.settle(settings, open_or_create(settings, PLAN.result))
    [line] = cutovers.lines(settings)
    assert (line.to_feed, line.rows_after, line.approved_by) == ("outbox", 11, "the owner")


def test_the_feed_is_known_after_the_log_was_shortened(settings: Settings, shop: Shop) -> None:
    judge(settings, PASS, PASS, PASS)
    switch(settings, OUTBOX)
    table = open_or_create(settings, PLAN.result)
    before = fed_of(table)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 hours"})
    table.optimize.compact()
    table.create_checkpoint()
    table.cleanup_metadata()
    assert fed_of(DeltaTable(table.table_uri)) == before
    assert before.feed == "outbox"


@pytest.mark.parametrize(
    ("schedule", "start", "end"),
    [
        ({}, "2026-03-01T02:00", "2026-03-01T03:00"),
        ({"every": "15m", "delay": "2m"}, "2026-03-01T02:45", "2026-03-01T03:00"),
        ({"every": "1d", "delay": "1h"}, "2026-02-28T00:00", "2026-03-01T00:00"),
        (
            {"every": "1d", "delay": "5h", "zone": "Europe/Berlin"},
            "2026-02-26T23:00",
            "2026-02-27T23:00",
        ),
    ],
)
def test_which_window_a_stream_is_to_be_verified_through_is_the_manifests_to_say(
    schedule: dict, start: str, end: str
) -> None:
    as_of = datetime(2026, 3, 1, 3, 5, tzinfo=UTC)
    manifest = PLAN.manifest.model_copy(update={"schedule": Schedule.model_validate(schedule)})
    due = manifest.windows.last_due(as_of)
    assert f"{due}" == f"[{start}:00+00:00, {end}:00+00:00)"
