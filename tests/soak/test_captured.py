"""What the change topic lacks of a transaction is found; what it says twice is no finding."""

import json

from lockstep_tools.soak.captured import check_captured, read_captured
from lockstep_tools.soak.open_transactions import Written
from pizzeria.names import CLIENTS, PIZZAS

TX_ID = 7


def change(name: str, order: int, table: str = CLIENTS) -> bytes:
    record = {
        "op": "c",
        "after": {"name": name},
        "source": {"table": table},
        "transaction": {"id": f"{TX_ID}:99", "total_order": order},
    }
    return json.dumps(record).encode()


def end(**counts: int) -> bytes:
    parts = [
        {"data_collection": f"public.{table}", "event_count": count}
        for table, count in counts.items()
    ]
    total = sum(counts.values())
    record = {"status": "END", "id": f"{TX_ID}:99", "event_count": total, "data_collections": parts}
    return json.dumps(record).encode()


WRITTEN = Written("one", TX_ID, [(CLIENTS, "c", "a"), (PIZZAS, "c", "b")])
WHOLE = [change("a", 1), change("b", 2, PIZZAS), end(clients=1, pizzas=1)]


def found(*values: bytes) -> list[str]:
    return [finding.text for finding in check_captured([WRITTEN], [], read_captured(values))]


def test_a_whole_transaction_is_right_also_when_its_changes_came_before() -> None:
    assert found(*WHOLE) == []
    assert found(WHOLE[0], *WHOLE) == []


def test_a_lost_change_is_found_with_an_end_that_hides_it() -> None:
    assert found(change("b", 1, PIZZAS), end(pizzas=1)) == [
        "lacks changes of a committed transaction",
        "has an END that counts wrong, or none",
    ]


def test_a_change_that_comes_again_with_another_number_is_found() -> None:
    assert found(change("a", 2), *WHOLE) == ["has changes at several places of a transaction"]


def test_a_transaction_that_was_never_committed_is_found() -> None:
    (finding,) = check_captured([], [WRITTEN], read_captured(WHOLE))
    assert finding.text == "has a transaction that was never committed"
