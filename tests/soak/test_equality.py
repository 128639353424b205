"""Two change logs are the same, or every difference is found."""

from pathlib import Path

import pytest
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep_tools.soak.equality import check_equal, check_positions

from tests.soak.change_log_tables import NOON, append, change, pizzas, settings_of

OUTBOX, TEMPORAL, LOOKUP = StreamMode.OUTBOX, StreamMode.TEMPORAL, StreamMode.LOOKUP
CHANGES = (change(1, 10, op="c"), change(2, 20, op="c"), change(1, 30, op="d"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = settings_of(tmp_path)
    append(settings, OUTBOX, 30, *CHANGES)
    return settings


def with_change(number: int, **other) -> list[dict]:
    rows = [dict(row) for row in CHANGES]
    rows[number] |= other
    return rows


def test_the_same_changes_at_other_times_are_equal(settings: Settings) -> None:
    for row in CHANGES:
        later = row | {"written_at": NOON.replace(hour=13), "commit_date": NOON.date()}
        append(settings, TEMPORAL, row["commit_lsn"], later)
    assert check_equal(settings, TEMPORAL) == []


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (CHANGES[:2], "order 1 at 30: is_missing"),
        ((*CHANGES, change(3, 25)), "order 3 at 25: is_extra"),
        (with_change(0, op="u"), "order 1 at 10: op_differs"),
        (with_change(0, tx_id=11), "order 1 at 10: tx_id_differs"),
        (with_change(0, order_time=NOON.replace(second=1)), "order 1 at 10: order_time_differs"),
        (with_change(1, client_name=None), "order 2 at 20: client_name_differs"),
        (with_change(1, table_name="Table 2"), "order 2 at 20: table_name_differs"),
        (with_change(1, pizzas=pizzas("8.50", "8.50")), "order 2 at 20: pizzas_differ"),
        (with_change(1, pizzas=pizzas("8.51")), "order 2 at 20: pizzas_differ"),
        (with_change(1, pizzas=None), "order 2 at 20: pizzas_differ"),
        (with_change(1, pizzas=[]), "order 2 at 20: pizzas_differ"),
        (with_change(1, pizzas=pizzas("8.51"), is_raced=True), "order 2 at 20: is_raced, pizzas"),
    ],
)
def test_any_other_difference_is_found(settings: Settings, rows: list[dict], what: str) -> None:
    append(settings, TEMPORAL, 30, *rows)
    (finding,) = check_equal(settings, TEMPORAL)
    assert finding.count == 1
    assert finding.examples[0].startswith(what)


def test_the_sequence_of_an_orders_pizzas_counts(settings: Settings) -> None:
    append(settings, OUTBOX, 40, change(2, 40, ["1.00", "2.00"]))
    append(settings, TEMPORAL, 40, *CHANGES, change(2, 40, ["2.00", "1.00"]))
    assert check_equal(settings, TEMPORAL)


def test_only_what_both_have_reached_is_compared(settings: Settings) -> None:
    append(settings, TEMPORAL, 20, *CHANGES[:2])
    assert check_equal(settings, TEMPORAL) == []
    append(settings, TEMPORAL, 30)
    assert check_equal(settings, TEMPORAL)[0].examples == ("order 1 at 30: is_missing",)


def test_rows_of_the_snapshot_are_not_compared(settings: Settings) -> None:
    append(settings, TEMPORAL, 30, *CHANGES, change(7, 0, ["1.00"]))
    assert check_equal(settings, TEMPORAL) == []


def test_the_look_up_may_be_wrong_in_rows_it_marked_but_not_lose_them(settings: Settings) -> None:
    raced = change(2, 20, ["9.99"], op="c", is_raced=True, client_name="Berta")
    append(settings, LOOKUP, 20, CHANGES[0], raced)
    assert check_equal(settings, LOOKUP) == []
    append(settings, LOOKUP, 30)
    assert check_equal(settings, LOOKUP)[0].count == 1


@pytest.mark.parametrize("other", [{"op": "u"}, {"tx_id": 21}, {"is_raced": False}])
def test_a_look_up_race_excuses_only_what_was_looked_up(settings: Settings, other: dict) -> None:
    raced = change(2, 20, ["9.99"], op="c", is_raced=True) | other
    append(settings, LOOKUP, 30, CHANGES[0], raced, CHANGES[2])
    assert check_equal(settings, LOOKUP)


def test_positions_in_order_are_found_good(settings: Settings) -> None:
    append(settings, OUTBOX, 40, change(1, 40), change(2, 40))
    assert check_positions(settings, OUTBOX) == []


@pytest.mark.parametrize(
    "row",
    [
        change(2, 20),
        change(3, 20, tx_id=21),
        change(3, 25, tx_id=20),
        change(3, 25, tx_id=None),
        change(3, 31),
        change(3, 25, is_raced=True),
    ],
    ids=[
        "twice at one position",
        "two transactions at one position",
        "one transaction at two positions",
        "no transaction",
        "beyond the frontier",
        "raced, and no look-up",
    ],
)
def test_a_change_log_that_breaks_its_own_rules_is_found(settings: Settings, row: dict) -> None:
    append(settings, OUTBOX, 30, row)
    assert len(check_positions(settings, OUTBOX)) == 1
