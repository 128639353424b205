"""A stream whose log does not go on where the published table ends publishes nothing, by name."""

import shutil
import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from lockstep.model.modes import StreamMode
from lockstep.publish import conditions
from lockstep.publish import switch as cutover
from lockstep.publish.errors import CutoverRefusedError, FeedBehindError, FeedReplacedError
from lockstep.publish.publisher import Publisher
from lockstep.publish.step import step
from lockstep.publish.table import fed_of, open_or_create
from lockstep.settings import Settings
from lockstep.supervise.heartbeat import DriverState, read_heartbeat
from pizzeria.names import change_log_table

from tests.publish.shapes import samples
from tests.publish.shop import DAY, PLAN, Shop, hour, published, version_of

OUTBOX, TEMPORAL = StreamMode.OUTBOX, StreamMode.TEMPORAL
BELOW, ABOVE = -900, 900
"""Where the new snapshot lies, seen from what is published."""


def switch(settings: Settings, feed: str) -> None:
    cutover.switch(settings, PLAN, feed, 1, "a test", DAY)


def publish(settings: Settings) -> None:
    while not step(settings, PLAN).is_all:
        pass


@pytest.fixture
def shop(settings: Settings, proved: None) -> Shop:
    """Two hours that the batch and the outbox have; the outbox feeds, and all is published."""
    return fed_by_outbox(Shop(settings))


@pytest.fixture
def old_shop(settings: Settings, proved: None) -> Shop:
    """The same of a home in which captures have no numbers yet."""
    shop = Shop(settings)
    shop.capture_id = None
    return fed_by_outbox(shop)


def fed_by_outbox(shop: Shop) -> Shop:
    for number in (0, 0, 1, 1):
        shop.order(number)
    for number in range(2):
        shop.run(hour(number))
    for mode in (OUTBOX, TEMPORAL):
        shop.stream(mode)
    switch(shop.settings, OUTBOX)
    shop.order(1)
    shop.stream(OUTBOX)
    publish(shop.settings)
    return shop


def reset_with_a_gap(shop: Shop, distance: int, capture_id: int | None = 2) -> None:
    """Changes that no stream sees, among them an order that is cancelled; then a new snapshot."""
    lsn = shop.lsn + distance
    shop.cancel(2)
    shop.change(3)
    shop.order(0)
    shop.reset_capture(capture_id, lsn)
    shop.rebuild(OUTBOX, from_snapshot=True)


@pytest.mark.parametrize("distance", [BELOW, ABOVE])
def test_a_feed_of_another_capture_is_refused_by_name(
    settings: Settings, shop: Shop, distance: int
) -> None:
    """`capture reset`, or a database that was replaced, whose LSNs begin anywhere."""
    before, rows = version_of(settings), published(settings)
    reset_with_a_gap(shop, distance)
    for _ in range(2):
        with pytest.raises(FeedReplacedError, match="lockstep publish switch batch") as refused:
            step(settings, PLAN)
    assert f"at LSN {shop.lsn}" in str(refused.value)
    assert (version_of(settings), published(settings)) == (before, rows)
    assert not FeedReplacedError.restart_helps


def test_a_feed_of_another_capture_that_has_come_past_the_mark_is_refused_still(
    settings: Settings, shop: Shop
) -> None:
    reset_with_a_gap(shop, BELOW)
    shop.lsn -= BELOW * 2
    shop.order(1)
    shop.stream(OUTBOX)
    rows = published(settings)
    with pytest.raises(FeedReplacedError):
        step(settings, PLAN)
    assert published(settings) == rows


@pytest.mark.parametrize("distance", [BELOW, ABOVE])
def test_the_publisher_ends_and_says_why(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch, distance: int
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    reset_with_a_gap(shop, distance)
    publisher = Publisher(settings)
    looks = iter(range(3))
    publisher._is_desired = lambda: next(looks, None) is not None
    assert publisher.run() == 2
    beat = read_heartbeat(settings, "publisher")
    assert (beat.state, beat.error.name) == (DriverState.FAILED, "FeedReplacedError")


@pytest.mark.parametrize("distance", [BELOW, ABOVE])
def test_the_remedy_leads_back_to_the_stream_with_every_order_right(
    settings: Settings, shop: Shop, distance: int
) -> None:
    reset_with_a_gap(shop, distance)
    switch(settings, "batch")
    for number in range(2):
        shop.run(hour(number))
    shop.stream(OUTBOX)
    publish(settings)
    switch(settings, OUTBOX)
    for _ in range(2):
        assert {i: row for i, (row, *_) in published(settings).items()} == shop.now
        shop.order(1)
        shop.change(4)
        shop.stream(OUTBOX)
        publish(settings)


def test_a_feed_that_is_rebuilt_of_the_same_capture_goes_on(settings: Settings, shop: Shop) -> None:
    shop.order(0)
    shop.stream(OUTBOX)
    shop.rebuild(OUTBOX, from_snapshot=False)
    publish(settings)
    assert {i: row for i, (row, *_) in published(settings).items()} == shop.now


def test_a_feed_that_is_filled_again_from_the_start_is_waited_for_by_name(
    settings: Settings, shop: Shop
) -> None:
    shutil.rmtree(settings.table_uri(change_log_table(OUTBOX)))
    all_of_it = shop.logs[OUTBOX]
    mark = fed_of(open_or_create(settings, PLAN.result)).reached
    shop.order(1)
    for known in (0, 2):
        lsn, shop.lsn = shop.lsn, all_of_it[known]["commit_lsn"]
        shop.logs[OUTBOX] = all_of_it[: known + 1]
        shop.rebuild(OUTBOX, from_snapshot=False)
        shop.lsn = lsn
        with pytest.raises(FeedBehindError, match=f"up to LSN {mark}.*has reached LSN"):
            step(settings, PLAN)
    assert FeedBehindError.restart_helps
    shop.logs[OUTBOX] = all_of_it
    shop.rebuild(OUTBOX, from_snapshot=False)
    shop.order(1)
    shop.stream(OUTBOX)
    publish(settings)
    assert {i: row for i, (row, *_) in published(settings).items()} == shop.now


def test_a_stream_of_another_capture_than_the_feeding_one_is_not_switched_to(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know that an order was cancelled between the two, which would stay."""
    monkeypatch.setattr(conditions, "FRONTIER_SECONDS_MAX", 0.2)
    lsn = shop.lsn + ABOVE
    shop.cancel(2)
    shop.reset_capture(2, lsn)
    shop.rebuild(TEMPORAL, from_snapshot=True)
    rows = published(settings)
    with pytest.raises(CutoverRefusedError, match="of the capture 2, what outbox has published"):
        switch(settings, TEMPORAL)
    assert published(settings) == rows
    switch(settings, "batch")
    for number in range(2):
        shop.run(hour(number))
    shop.stream(TEMPORAL)
    switch(settings, TEMPORAL)
    assert {i: row for i, (row, *_) in published(settings).items()} == shop.now


def test_a_home_of_before_captures_had_numbers_takes_them_up_and_goes_on(
    settings: Settings, old_shop: Shop
) -> None:
    old_shop.order(0)
    old_shop.stream(OUTBOX)
    publish(settings)
    assert fed_of(open_or_create(settings, PLAN.result)).capture_id is None
    old_shop.capture_id = 1
    old_shop.order(0)
    old_shop.stream(OUTBOX)
    publish(settings)
    assert fed_of(open_or_create(settings, PLAN.result)).capture_id == 1
    assert {i: row for i, (row, *_) in published(settings).items()} == old_shop.now
    reset_with_a_gap(old_shop, ABOVE)
    with pytest.raises(FeedReplacedError):
        step(settings, PLAN)


@pytest.mark.parametrize(
    ("distance", "error"), [(BELOW, FeedBehindError), (ABOVE, FeedReplacedError)]
)
def test_a_reset_before_captures_had_numbers_is_refused_too(
    settings: Settings, old_shop: Shop, distance: int, error: type[Exception]
) -> None:
    rows = published(settings)
    reset_with_a_gap(old_shop, distance)
    with pytest.raises(error, match="lockstep publish switch batch"):
        step(settings, PLAN)
    assert published(settings) == rows


def test_a_snapshot_alone_is_no_proof_that_the_capture_is_the_same(
    settings: Settings, proved: None
) -> None:
    shop = Shop(settings)
    shop.capture_id = None
    shop.order(0)
    shop.begin_capture(OUTBOX, with_snapshot=True)
    switch(settings, OUTBOX)
    shop.reset_capture(1, shop.lsn)
    shop.rebuild(OUTBOX, from_snapshot=True)
    with pytest.raises(FeedReplacedError, match="newest change that is published"):
        step(settings, PLAN)


def test_the_newest_change_is_found_by_a_key_of_two_columns(
    tmp_path: Path, settings: Settings, proved: None
) -> None:
    shape = samples(tmp_path / "project")
    shop = Shop(settings, shape=shape)
    shop.capture_id = None
    for _ in range(4):
        shop.order(0)
    shop.stream(OUTBOX)
    cutover.switch(settings, shape.plan, OUTBOX, 1, "a test", DAY)
    shop.capture_id = 1
    shop.order(0)
    shop.stream(OUTBOX)
    while not step(settings, shape.plan).is_all:
        pass
    assert fed_of(open_or_create(settings, shape.plan.result)).capture_id == 1
    assert len(published(settings, shape=shape)) == 5


def test_the_capture_is_known_after_the_log_was_shortened(settings: Settings, shop: Shop) -> None:
    table = open_or_create(settings, PLAN.result)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 hours"})
    table.create_checkpoint()
    table.cleanup_metadata()
    assert fed_of(DeltaTable(table.table_uri)).capture_id == shop.capture_id
    reset_with_a_gap(shop, ABOVE)
    with pytest.raises(FeedReplacedError):
        step(settings, PLAN)
