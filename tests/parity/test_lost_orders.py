"""Where the change of an order is that a stream lacks: in the topic, readable or not, or lost."""

from datetime import timedelta

import pytest
from lockstep.parity import lost_orders
from lockstep.parity.lost_orders import where_lost
from lockstep.settings import Settings
from pizzeria.names import ORDERS

from tests.streams import debezium
from tests.streams.debezium import NOON, committed_at
from tests.streams.topics import PLAN

ROW = {"id": 5, "table_assignment_id": 1, "order_time": NOON.isoformat(), "pizzas": [1]}
RENAMED = {"id": 5, "seating_id": 1, "order_time": NOON.isoformat(), "pizzas": [1]}
TX = 2**32 + 2
AT_4 = "is in the change topic at offset 4"


def put_into_topic(monkeypatch: pytest.MonkeyPatch, values: list[bytes]) -> None:
    topic = list(enumerate(values))
    monkeypatch.setattr(lost_orders.change_topic, "offset_at", lambda *_: 0)
    monkeypatch.setattr(lost_orders.change_topic, "end_offset", lambda _: len(topic))
    monkeypatch.setattr(lost_orders.change_topic, "read_again", lambda *_: [topic])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW, f"its change {AT_4}"),
        (
            RENAMED,
            f"a change of its transaction {AT_4} and cannot be read",
        ),
        ({**ROW, "id": 6}, "its change never reached the change topic: it was lost before"),
    ],
)
def test_a_lost_order_is_looked_for_in_the_topic(
    monkeypatch: pytest.MonkeyPatch, row: dict, says: str
) -> None:
    values = [*debezium.transaction(1, (ORDERS, RENAMED)), *debezium.transaction(2, (ORDERS, row))]
    put_into_topic(monkeypatch, values)
    assert where_lost(Settings(), PLAN.fact, [((5,), TX, NOON)])[5,]["topic"] == says


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0, "its change is in the change topic at offset 1"),
        (1, "its change never reached the change topic: it was lost before"),
    ],
)
def test_an_order_written_behind_a_savepoint_is_found_by_the_time_of_its_commit(
    monkeypatch: pytest.MonkeyPatch, seconds: int, says: str
) -> None:
    put_into_topic(monkeypatch, debezium.transaction(1, (ORDERS, ROW)))
    part, at = TX + 1, committed_at(1) + timedelta(seconds=seconds)
    assert where_lost(Settings(), PLAN.fact, [((5,), part, at)])[5,]["topic"] == says
