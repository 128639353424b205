"""A year of a real restaurant, where its files are: exact totals, equal rows, run after run."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.settings import Settings
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import read_pizza_place
from pyspark.sql import SparkSession

from tests.hourly_table import Found, empty_pizzeria, found, rows_of, run_window
from tests.project import PROJECT_DIR

PIZZA_PLACE = PROJECT_DIR.parent / "shared" / "data" / "pizza_place"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.services,
    pytest.mark.skipif(not PIZZA_PLACE.exists(), reason=f"the files are not at {PIZZA_PLACE}"),
]

TOTALS = Found(21_350, 49_574, Decimal("817860.05"))
YEAR = Window.parse("2015-01-01", "2016-01-01")


@pytest.fixture
def restaurant(postgres: Settings, tmp_path: Path) -> Iterator[Settings]:
    empty_pizzeria(postgres)
    load(postgres, read_pizza_place(PIZZA_PLACE))
    yield postgres.model_copy(update={"lakehouse": str(tmp_path / "lakehouse")})
    empty_pizzeria(postgres)


def test_a_year_gives_its_exact_totals_in_each_read_mode_again_and_again(
    spark: SparkSession, restaurant: Settings
) -> None:
    rows = []
    for mode in (*ReadMode, *ReadMode):
        run_window(spark, restaurant, YEAR, mode)
        assert found(restaurant) == TOTALS
        rows.append(rows_of(restaurant))
    assert rows[0] == rows[1] == rows[2] == rows[3]
