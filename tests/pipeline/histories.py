"""A small source for tests of queries: its catalog, and random histories of its tables."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.query.analysis import Query, analyse

FILE = Path("include", "sql", "orders_enriched", "query.sql")
FOREVER = 2**63 - 1
Version = tuple[tuple, int, int]
"""A row, and the commits between which it was the truth, half-open."""
History = dict[str, list[Version]]


def _table(table: str, /, *, key: tuple[str, ...] = ("id",), **columns: str) -> Table:
    found = tuple(Column(column, type_, column not in key) for column, type_ in columns.items())
    return Table(TableName.parse(table), found, key)


CATALOG = Catalog(
    "pizzeria",
    (
        _table("clients", id="bigint", name="text", city="text"),
        _table("items", id="bigint", order_id="bigint", pizza_id="integer", amount="integer"),
        _table(
            "orders",
            id="bigint",
            table_assignment_id="bigint",
            order_time="timestamp with time zone",
            pizzas="integer[]",
        ),
        _table("pizzas", id="integer", name="text", price="numeric(10,2)"),
        _table("table_assignment", id="bigint", client_id="bigint", table_id="integer"),
        _table("tables", id="integer", name="text"),
        _table("plant.notes", key=("no",), no="integer", city="text", text="text"),
    ),
)
FACT = TableName.parse("orders")
SCHEMAS = {
    "public.orders": "id long, table_assignment_id long, order_time string, pizzas array<int>",
    "public.table_assignment": "id long, client_id long, table_id int",
    "public.clients": "id long, name string, city string",
    "public.tables": "id int, name string",
    "public.pizzas": "id int, name string, price decimal(10,2)",
    "public.items": "id long, order_id long, pizza_id int, amount int",
    "plant.notes": "no int, city string, text string",
}
_COUNTS = {
    "public.orders": 7,
    "public.table_assignment": 5,
    "public.clients": 4,
    "public.tables": 3,
    "public.pizzas": 5,
    "public.items": 12,
    "plant.notes": 5,
}
"""Rows of each table that come and go."""
_CITIES = ("Oslo", "Rome", "Bonn", None)


def analysed(sql: str, *key: str) -> Query:
    return analyse(sql, FILE, CATALOG, FACT, key or ("id",))


def _row(table: str, id_: int, rng: Random) -> tuple:
    def some(count: int) -> int | None:
        return None if rng.random() < 0.1 else rng.randrange(count)

    name = rng.choice(("a", "b", "c", None))
    return {
        "public.orders": lambda: (id_, some(6), f"{rng.randrange(4)}", _elements(rng)),
        "public.table_assignment": lambda: (id_, some(5), some(4)),
        "public.clients": lambda: (id_, name, rng.choice(_CITIES)),
        "public.tables": lambda: (id_, name),
        "public.pizzas": lambda: (id_, name, Decimal(rng.randrange(400)) / 4),
        "public.items": lambda: (id_, some(8), some(6), rng.choice((1, 2, 5, None))),
        "plant.notes": lambda: (id_, rng.choice(_CITIES), name),
    }[table]()


def _elements(rng: Random) -> list[int | None] | None:
    if rng.random() < 0.1:
        return None
    return [rng.choice((0, 1, 2, 3, 4, 5, None)) for _ in range(rng.randrange(4))]


def random_history(rng: Random, commits: int) -> History:
    """Inserts, updates and deletes of all tables, several in each commit of 1, 2, 3, …"""
    history: History = {table: [] for table in SCHEMAS}
    living: dict[tuple[str, int], tuple[tuple, int]] = {}
    for commit in range(1, commits + 1):
        for table in SCHEMAS:
            for _ in range(5 if commit == 1 else rng.randrange(4)):
                id_ = rng.randrange(_COUNTS[table])
                known = living.pop((table, id_), None)
                if known is not None and known[1] < commit:
                    history[table].append((*known, commit))
                if rng.random() > 0.15:
                    living[table, id_] = (_row(table, id_, rng), commit)
    for (table, _), known in living.items():
        history[table].append((*known, FOREVER))
    return history


def valid_at(history: History, table: str, commit: int) -> Iterator[tuple]:
    return (row for row, start, end in history[table] if start <= commit < end)


def random_points(rng: Random, commits: int) -> list[tuple[int, int]]:
    """Keys of the fact with commits, those of rows that are not there included."""
    every = [(id_, commit) for id_ in range(8) for commit in range(commits + 1)]
    return sorted(rng.sample(every, 30))
