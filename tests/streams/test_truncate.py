"""TRUNCATE of the orders deletes each order that lives, in modes that do not read the orders."""

from decimal import Decimal

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.records import MESSAGES
from lockstep.cdc.transactions import TRUNCATE
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from pizzeria.names import ORDERS, OUTBOX, change_log_table

from tests.streams.topics import RowChange, follow, follower_of, published, serve, topic_of

TRUNCATED: RowChange = (ORDERS, TRUNCATE, None)


def row_change(order_id: int, op: str, by: str = OUTBOX) -> RowChange:
    row = published(order_id, op, "Anna", "T1", [("Verdure", Decimal("9.5"))])
    return by, "m" if by == MESSAGES else "c", row


def deleted(settings: Settings, mode: StreamMode) -> list[tuple[int, int]]:
    """The deletes of the mode's change log: order and commit LSN."""
    log = open_table(settings.table_uri(change_log_table(mode))).to_pyarrow_table()
    rows = log.to_pylist()
    return sorted((row["order_id"], row["commit_lsn"]) for row in rows if row["op"] == "d")


@pytest.mark.parametrize("held_max", [1_000, 0])
@pytest.mark.parametrize(
    ("mode", "by"), [(StreamMode.OUTBOX, OUTBOX), (StreamMode.MESSAGE, MESSAGES)]
)
def test_a_truncate_deletes_the_orders_that_were_published(
    home: Settings, monkeypatch: pytest.MonkeyPatch, mode: StreamMode, by: str, held_max: int
) -> None:
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held_max)
    topic = topic_of([row_change(1, "c", by)], [row_change(2, "c", by)], [TRUNCATED])
    serve(monkeypatch, topic)
    follow(follower_of(None, home, mode), topic)
    assert deleted(home, mode) == [(1, 30), (2, 30)]


def test_a_truncate_deletes_who_lives_by_the_table_and_by_what_is_not_written_yet(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, gone, back, just_gone, just_made = range(1, 6)
    before = [
        [row_change(number, "c") for number in (plain, gone, back, just_gone)],
        [row_change(gone, "d"), row_change(back, "d")],
        [row_change(back, "c")],
    ]
    with_it = [[row_change(just_gone, "d")], [row_change(just_made, "c")], [TRUNCATED]]
    topic = topic_of(*before, *with_it)
    written = len(topic_of(*before))
    serve(monkeypatch, topic)
    one = follower_of(None, home, StreamMode.OUTBOX)
    follow(one, topic[:written])
    follow(one, topic[written:])
    by_the_truncate = [order for order, lsn in deleted(home, StreamMode.OUTBOX) if lsn == 60]
    assert by_the_truncate == [plain, back, just_made]
