"""A pipeline's own tests: what their files may say, and that each mistake is named by its line."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from lockstep.pipeline.catalog import Catalog
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.pg_types import parse_type
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.pipeline.steps import Expected, TypedWrite, read_steps
from lockstep.pipeline.toml_values import column_value, is_as_expected
from lockstep.pipeline.type_table import array_type, scalar_type

from tests.project import PROJECT_DIR

FILE = Path("include/sql/orders_enriched/tests/one.toml")
PIPELINE = read_project(PROJECT_DIR).pipeline("orders_enriched")
PLAN, CATALOG = plan_of(PIPELINE), PIPELINE.source.catalog
HEAD = "format_version = 1\n[[transaction]]\n"


def read(text: str) -> list:
    return read_steps(HEAD + text, FILE, PLAN, CATALOG)


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as refused:
        read(text)
    return [str(one) for one in refused.value.problems]


def test_writes_and_rows_have_the_values_of_their_columns() -> None:
    [step] = read("""
write = [
    { insert = "clients", row = { id = 7, name = "Ada" } },
    { update = "public.pizzas", row = { id = 1, price = 9.5 } },
    { delete = "orders", row = { id = 3 } },
]
expect = [{ row = { order_id = 4, client_name = "Ada" }, null = ["table_name"] }]
gone = [{ order_id = 3 }]
""")
    assert step.line == 2
    assert [(one.verb, one.table.name, one.values) for one in step.writes] == [
        ("insert", "clients", {"id": 7, "name": "Ada"}),
        ("update", "pizzas", {"id": 1, "price": Decimal("9.50")}),
        ("delete", "orders", {"id": 3}),
    ]
    assert all(isinstance(one, TypedWrite) for one in step.writes)
    assert step.expected == (
        Expected(9, (4,), {"order_id": 4, "client_name": "Ada", "table_name": None}),
        Expected(10, (3,), None),
    )


ORDER = "id = 1, table_assignment_id = 1, order_time = 2026-11-26T12:00:00Z, pizzas = [1]"
MISTAKES = {
    "no verb": ("{ row = { id = 1 } }", "needs exactly one of insert, update and delete, with"),
    "two verbs": (
        '{ insert = "clients", delete = "clients", row = { id = 1 } }',
        "needs exactly one of insert, update and delete, with the table",
    ),
    "an unknown table": (
        '{ insert = "client", row = { id = 1 } }',
        ".insert: the query reads no table client: did you mean public.clients?",
    ),
    "no table's name": ('{ insert = "a.b.c", row = { id = 1 } }', "names no table: write `schema"),
    "an unknown column": (
        '{ update = "clients", row = { id = 1, nam = "a" } }',
        ".row.nam: the query reads no column nam of public.clients: did you mean name?",
    ),
    "a text for a number": (
        '{ delete = "clients", row = { id = "1" } }',
        '.row.id: "1" is no bigint: write an integer',
    ),
    "a number that is too large": (
        '{ delete = "clients", row = { id = 9223372036854775808 } }',
        ".row.id: 9223372036854775808 is no bigint: Expected `int` <= 9223372036854775807",
    ),
    "a decimal of too many places": (
        '{ update = "pizzas", row = { id = 1, price = 9.505 } }',
        ".row.price: 9.505 is no numeric(10,2): ",
    ),
    "a time without its offset": (
        '{ update = "orders", row = { id = 1, order_time = 2026-11-26T12:00:00 } }',
        "is no timestamp with time zone: write its offset, such as 2026-11-26T12:00:00Z",
    ),
    "no list": (
        '{ update = "orders", row = { id = 1, pizzas = 1 } }',
        "1 is no integer[]: write a list",
    ),
    "no key": ('{ update = "clients", row = { name = "a" } }', "lacks id of the primary key of"),
    "more than a key": (
        '{ delete = "clients", row = { id = 1, name = "a" } }',
        ".row.name: name is no column of the key: remove it",
    ),
    "a column that may not be null": (
        '{ update = "clients", row = { id = 1 }, null = ["name"] }',
        ".null[0]: name of public.clients is NOT NULL",
    ),
    "a column that an insert lacks": (
        '{ insert = "clients", row = { id = 1 } }',
        "lacks name, which public.clients has NOT NULL",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_key(what: str) -> None:
    step, message = MISTAKES[what]
    [found] = problems(
        f'write = [\n    {{ insert = "orders", row = {{ {ORDER} }} }},\n    {step},\n]'
    )
    assert found.startswith(f"{FILE}:5: transaction[0].write[1]")
    assert message in found


def test_every_mistake_is_named_at_once() -> None:
    found = problems("""
write = [{ insert = "client", row = {} }]
expect = [{ row = { order_id = "x", nothing = 1 }, null = ["pizza"] }, { row = {} }]
gone = [{ id = 1 }]
""")
    assert [one.partition(" ")[0].rpartition(":")[0] for one in found] == [f"{FILE}:4"] + [
        f"{FILE}:5"
    ] * 4 + [f"{FILE}:6"] * 2
    assert "the result has no column pizza: did you mean pizzas?" in "".join(found)
    assert "lacks order_id of the key" in found[-2]
    assert "id is no column of the key: remove it" in found[-1]


NO_TYPES = Catalog("depot", (), {"mood": ("good", "bad")}, {})
VALUES = [
    ("smallint", 7, 7),
    ("real", Decimal("1.5"), 1.5),
    ("double precision", 2, 2.0),
    ("numeric(6,2)", "1.5", Decimal("1.50")),
    ("boolean", True, True),
    ("text", "a", "a"),
    ("character(3)", "a", "a  "),
    ("uuid", "00000000-0000-4000-8000-00000000000A", "00000000-0000-4000-8000-00000000000a"),
    ("jsonb", '{"a": 1}', '{"a": 1}'),
    ("bytea", "00ff", b"\x00\xff"),
    ("date", date(2026, 3, 28), date(2026, 3, 28)),
    ("time without time zone", "12:30:00", "12:30:00"),
    ("mood", "bad", "bad"),
    ("text[]", ["a", "b"], ["a", "b"]),
    ("numeric(6,2)[]", [1, "2.5"], [Decimal("1.00"), Decimal("2.50")]),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VALUES)
def test_a_value_is_that_which_the_decoders_give(type_: str, value: Any, expected: Any) -> None:
    pg = parse_type(type_, NO_TYPES)
    planned = scalar_type(pg, None)
    found = column_value(value, pg, array_type(pg, planned) if pg.is_array else planned)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *(("boolean", 1), ("smallint", True), ("smallint", 70000), ("mood", "sad"), ("uuid", "a")),
        *(("bytea", "x"), ("date", "2026-03-28"), ("double precision", "1"), ("numeric(3,2)", 99)),
    ],
)
def test_a_value_of_another_type_is_refused(type_: str, value: Any) -> None:
    pg = parse_type(type_, NO_TYPES)
    with pytest.raises(ValueError, match=r"\w"):
        column_value(value, pg, scalar_type(pg, None))


def test_a_local_time_is_the_instant_of_its_zone() -> None:
    pg = parse_type("timestamp(3) without time zone", NO_TYPES)
    berlin = scalar_type(pg, "Europe/Berlin")
    noon = datetime(2026, 7, 1, 12)
    assert column_value(noon, pg, berlin) == datetime(2026, 7, 1, 10, tzinfo=UTC)
    with pytest.raises(ValueError, match="local time of Europe/Berlin: leave out the offset"):
        column_value(noon.replace(tzinfo=UTC), pg, berlin)
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        column_value(datetime(2026, 3, 29, 2, 30), pg, berlin)


@pytest.mark.parametrize(
    ("expected", "found", "is_same"),
    [
        (1, 1, True),
        (1, True, False),
        (True, True, True),
        (None, None, True),
        (None, 0, False),
        (1, None, False),
        (Decimal("1.5"), Decimal("1.50"), True),
        ("1.5", Decimal("1.50"), True),
        ("x", Decimal("1.50"), False),
        (Decimal("0.1"), 0.1, True),
        (Decimal("0.1"), 0.10000000149011612, True),
        (Decimal("0.1"), 0.1001, False),
        ("+-1", Decimal(1), False),
        (Decimal("nan"), float("nan"), True),
        (Decimal(1), float("nan"), False),
        ("00ff", b"\x00\xff", True),
        (datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC), True),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([{"c": 1}], [{"a": 1}], False),
        ([1], [1, 2], False),
        ([1], None, False),
    ],
)
def test_an_expected_value(expected: Any, found: Any, is_same: bool) -> None:
    assert is_as_expected(expected, found) is is_same
