"""An empty shop for each test, and the small data set with its recorded totals."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.names import Login
from pizzeria.shop.pizza_place import PizzaPlace, read_pizza_place

from tests.hourly_table import SMALL_PIZZERIA as SMALL
from tests.hourly_table import empty_pizzeria


@pytest.fixture(scope="session")
def small() -> PizzaPlace:
    """The committed data set."""
    return read_pizza_place(SMALL)


@pytest.fixture(scope="session")
def small_totals() -> dict:
    """Its totals, counted apart from the product's code."""
    return json.loads((SMALL / "totals.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the small data set to damage."""
    return shutil.copytree(SMALL, tmp_path / "pizzeria")


@pytest.fixture
def shop(postgres: Settings) -> Settings:
    """PostgreSQL with the pizzeria's tables empty and their sequences at 1."""
    empty_pizzeria(postgres)
    return postgres


@pytest.fixture
def owner(shop: Settings) -> Iterator[psycopg.Connection]:
    """A connection that may look at everything in the shop."""
    with connect(shop, Login.OWNER) as connection:
        yield connection
