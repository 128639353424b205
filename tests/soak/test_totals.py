"""The current state: the last change of each order, without deletes."""

from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep_tools.soak.totals import check_totals, current_totals
from pizzeria.shop.totals import Totals

from tests.soak.change_log_tables import append, change, settings_of

MODE = StreamMode.TEMPORAL


def test_the_last_change_counts_and_a_deleted_order_does_not(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    append(settings, MODE, 20, change(1, 20, ["1.00", "2.00"]), change(2, 20, ["4.00"]))
    append(settings, MODE, 40, change(2, 30, op="d"), change(1, 40, ["8.50", "8.50", "0.05"]))
    append(settings, MODE, 50, change(3, 50, []))
    found = current_totals(settings, MODE)
    assert found == Totals(2, 3, Decimal("17.05"))
    assert check_totals(settings, MODE, found) == []
    assert len(check_totals(settings, MODE, Totals(2, 3, Decimal("17.04")))) == 1


def test_only_the_orders_asked_for_count(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    append(settings, MODE, 20, *[change(n, 20, [f"{n}.00"]) for n in range(1, 6)])
    assert current_totals(settings, MODE, range(2, 4)) == Totals(2, 2, Decimal("5.00"))


def test_an_empty_table_has_nothing(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    append(settings, MODE, 20)
    assert current_totals(settings, MODE) == Totals(0, 0, Decimal(0))


def test_a_mode_without_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="orders_enriched__temporal"):
        current_totals(settings_of(tmp_path), MODE)
