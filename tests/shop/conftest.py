"""An empty shop for each test, and the small data set with its recorded totals."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from lockstep.contracts import CAPTURED_TABLES, Role
from lockstep.settings import Settings
from lockstep.shop.pizza_place import PizzaPlace, read_pizza_place
from lockstep.sources.postgres import connect
from psycopg.sql import SQL, Identifier

SMALL = Path(__file__).parents[1] / "data" / "small_pizzeria"


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
    tables = SQL(", ").join(map(Identifier, CAPTURED_TABLES))
    with connect(postgres, Role.OWNER) as connection:
        connection.execute(SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
    return postgres


@pytest.fixture
def owner(shop: Settings) -> Iterator[psycopg.Connection]:
    """A connection that may look at everything in the shop."""
    with connect(shop, Role.OWNER) as connection:
        yield connection
