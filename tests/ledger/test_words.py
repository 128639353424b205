"""What is said of a raced look-up, given its evidence."""

import json

import pytest
from lockstep.ledger.entries import Difference
from lockstep.ledger.formatting import explanation, plain
from lockstep.model.verdict import DifferenceClass

CHANGE = {"op": "c", "tx_id": 700, "commit_lsn": 90, "committed_at": "12:00:01"}
LATER = {"tx_id": 705, "committed_at": "12:00:02"}
PRICE = {"table": "pizzas", "id": 3, "column": "price", "from": "9.50", "to": "9.00", **LATER}
RACE = "looked up after transaction 700 at 12:00:01, and marked as raced"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, RACE),  # evidence of a version that proved nothing
        ({"seen": None, "explained_by": []}, f"{RACE}: not yet visible then"),
        (
            {"seen": {"op": "d", **LATER}, "explained_by": []},
            f"{RACE}, as transaction 705 at 12:00:02 had cancelled it",
        ),
        (
            {"seen": CHANGE, "explained_by": [PRICE]},
            f"{RACE}; pizzas 3: price 9.50 → 9.00 by transaction 705 at 12:00:02",
        ),
    ],
)
def test_a_race_is_explained_by_what_the_look_up_saw(found: dict, text: str) -> None:
    evidence = json.dumps({"change": CHANGE, **found})
    race = Difference(DifferenceClass.LOOKUP_RACE, "[7]", "[]", "{}", "{}", evidence)
    assert explanation(race) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            [{"pizza": "Funghi", "price": "9.50"}, {"pizza": None, "price": None}],
            "[Funghi 9.50, None None]",
        ),
        (["a", "b"], "[a, b]"),
        ({"city": "Bonn", "codes": [1, 2]}, "Bonn [1, 2]"),
        (None, "None"),
    ],
)
def test_a_value_of_any_type_is_shown_plainly(value: object, text: str) -> None:
    assert plain(value) == text
