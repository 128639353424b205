"""Steps from a change log: how much one brings in, and which files it reads for that."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from lockstep.model.modes import StreamMode
from lockstep.publish import from_stream
from lockstep.publish import switch as cutover
from lockstep.publish.step import step
from lockstep.publish.table import fed_of, open_or_create
from lockstep.settings import Settings
from pizzeria.names import ORDERS_ENRICHED

from tests.publish.shapes import samples
from tests.publish.shop import DAY, PLAN, Shop, hour, published, version_of

OUTBOX = StreamMode.OUTBOX


@pytest.fixture
def shop(settings: Settings, proved: None) -> Shop:
    """Two hours with two orders each, fed by the outbox; all is published."""
    shop = Shop(settings)
    for number in (0, 0, 1, 1):
        shop.order(number)
    shop.stream(OUTBOX)
    cutover.switch(settings, PLAN, OUTBOX, 1, "a test", DAY)
    return shop


def files_by_hour(settings: Settings) -> dict[str, str]:
    table = DeltaTable(settings.table_uri(ORDERS_ENRICHED))
    return {path.split("/")[-2]: path for path in table.file_uris()}


@pytest.mark.parametrize("deletes_looked_up", [0, 1000])
def test_a_cancelled_order_goes_though_its_change_does_not_say_of_which_hour(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch, deletes_looked_up: int
) -> None:
    monkeypatch.setattr(from_stream, "DELETES_LOOKED_UP_MAX", deletes_looked_up)
    before = version_of(settings)
    shop.cancel(1)
    shop.change(3)
    shop.stream(OUTBOX)
    assert step(settings, PLAN).is_all
    assert set(published(settings)) == {2, 3, 4}
    assert version_of(settings) == before + 1


def test_rows_without_a_time_come_change_and_go(
    tmp_path: Path, settings: Settings, proved: None
) -> None:
    """No hourly run takes such a row, and a stream has it all the same."""
    shape = samples(tmp_path / "project")
    shop = Shop(settings, shape=shape)
    for number in (0, 1, 1):
        shop.order(number)
    shop.stream(OUTBOX)
    cutover.switch(settings, shape.plan, OUTBOX, 1, "a test", DAY)
    for act in (lambda: shop.order(None), lambda: shop.change(4), lambda: shop.cancel(4)):
        act()
        shop.change(1)
        shop.stream(OUTBOX)
        assert step(settings, shape.plan).is_all
        rows = published(settings, shape=shape)
        assert {number: row for number, (row, *_) in rows.items()} == shop.now


@pytest.mark.parametrize("looked_up", [from_stream.DELETES_LOOKED_UP_MAX, 0])
def test_many_deletes_of_keys_of_two_columns_are_one_commit(
    tmp_path: Path,
    settings: Settings,
    proved: None,
    monkeypatch: pytest.MonkeyPatch,
    looked_up: int,
) -> None:
    monkeypatch.setattr(from_stream, "DELETES_LOOKED_UP_MAX", looked_up)
    shape = samples(tmp_path / "project")
    shop = Shop(settings, shape=shape)
    rows = [shop.order(number % 3) for number in range(1_003)]
    shop.stream(OUTBOX)
    cutover.switch(settings, shape.plan, OUTBOX, 1, "a test", DAY)
    before = version_of(settings)
    for number in rows[:1_000]:
        shop.cancel(number)
    shop.stream(OUTBOX)
    assert step(settings, shape.plan).is_all
    assert version_of(settings) == before + 1
    assert set(published(settings, shape=shape)) == set(rows[1_000:])


def test_files_of_other_hours_are_left_alone(settings: Settings, shop: Shop) -> None:
    before = files_by_hour(settings)
    shop.change(3)
    shop.stream(OUTBOX)
    step(settings, PLAN)
    after = files_by_hour(settings)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == [
        f"order_hour={hour(1).start.hour}"
    ]


def test_an_order_that_came_and_went_moves_the_mark_alone(settings: Settings, shop: Shop) -> None:
    before = published(settings)
    shop.cancel(shop.order(1))
    frontier = shop.stream(OUTBOX)
    assert step(settings, PLAN).has_published
    assert published(settings) == before
    assert fed_of(open_or_create(settings, PLAN.result)).reached == frontier
    assert not step(settings, PLAN).has_published


def test_a_frontier_that_moves_without_orders_is_no_commit(settings: Settings, shop: Shop) -> None:
    shop.lsn += 500
    shop.stream(OUTBOX)
    before = version_of(settings)
    found = step(settings, PLAN)
    assert (found.has_published, found.is_all) == (False, True)
    assert version_of(settings) == before


def test_much_comes_in_shares_that_end_with_a_transaction(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_stream, "CHANGES_MAX", 3)
    for _ in range(7):
        shop.order(1)
    shop.stream(OUTBOX)
    counts = []
    while True:
        done = step(settings, PLAN)
        counts.append(len(published(settings)) - 4)
        if done.is_all:
            break
    assert counts == [3, 6, 7]


def test_a_transaction_larger_than_a_share_comes_in_whole(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_stream, "CHANGES_MAX", 3)
    first = shop.order(1)
    with shop.one_transaction():
        for _ in range(5):
            shop.order(1)
    last = shop.order(1)
    shop.stream(OUTBOX)
    seen = []
    while not step(settings, PLAN).is_all:
        seen.append(len(published(settings)) - 4)
    assert seen == [1, 6]
    assert {first, last} <= set(published(settings))
