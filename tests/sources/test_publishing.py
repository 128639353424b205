"""Which look-ups of a query can be published: those whose rows a lock keeps as they are."""

import pytest
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, Source
from lockstep.pipeline.source import SourceManifest
from lockstep.sources import publishing

SALE, ITEM, PRICE, LINE, NOTE = (
    TableName("public", name) for name in ("sale", "item", "price", "line", "note")
)
CATALOG = Catalog(
    "shop",
    tuple(
        Table(name, tuple(Column(one, "integer", one != "id") for one in columns), ("id",))
        for name, columns in {
            LINE: ("id", "sale_id", "item_id"),
            SALE: ("id", "item_id", "region"),
            ITEM: ("id", "region"),
            NOTE: ("id", "item_id"),
            PRICE: ("id", "item_id", "region"),
        }.items()
    ),
)
MANIFEST = {
    "format_version": 1,
    "sources": ("shop",),
    "semantics": "as_of_commit",
    "fact": "sale",
    "key": ("id",),
}
DATABASE = {"read": "reader", "capture": "capture"}
SOURCE = SourceManifest.model_validate(
    {
        "format_version": 1,
        "kind": "postgres",
        "host": "127.0.0.1",
        "port": 5432,
        "database": "shop",
        "roles": DATABASE,
    }
)
ITEMS = frozenset({(SALE, "item_id", ITEM, "id")})
PRICES = frozenset({(SALE, "item_id", PRICE, "item_id"), (SALE, "region", PRICE, "region")})
LINES = frozenset({(LINE, "sale_id", SALE, "id")})
NOTES = frozenset({(NOTE, "item_id", ITEM, "id")})
JOIN_ITEM = "LEFT JOIN item ON item.id = sale.item_id"
JOIN_PRICE = "LEFT JOIN price ON price.item_id = sale.item_id AND price.region = sale.region"
COUNT_LINES = (
    "LEFT JOIN (SELECT sale_id, count(*) AS found FROM line GROUP BY sale_id) AS lines "
    "ON lines.sale_id = sale.id"
)
COUNT_NOTES = (
    f"{JOIN_ITEM} LEFT JOIN (SELECT item_id, count(*) AS found FROM note GROUP BY item_id) AS notes"
    " ON notes.item_id = item.id"
)


def plan(joins: str) -> Plan:
    manifest = PipelineManifest.model_validate(MANIFEST)
    query = f"SELECT sale.id FROM sale {joins}"
    return plan_of(Pipeline("sales", manifest, Source("shop", SOURCE, CATALOG), query))


@pytest.mark.parametrize(
    ("joins", "foreign_keys", "locked_by"),
    [
        ("", [], []),
        (JOIN_ITEM, [ITEMS], [("id",)]),
        (JOIN_PRICE, [PRICES], [("item_id", "region")]),
        (f"{JOIN_ITEM} AND item.region = sale.region", [ITEMS], [("id",)]),
        (COUNT_LINES, [LINES], [("sale_id",)]),
    ],
    ids=["nothing", "one column", "two columns", "and another", "rows that refer to the fact"],
)
def test_what_follows_foreign_keys_is_locked_by_their_columns(
    joins: str, foreign_keys: list[frozenset], locked_by: list[tuple[str, ...]]
) -> None:
    found = publishing._locked_look_ups(plan(joins), foreign_keys)
    assert [step.columns for step in found] == locked_by


@pytest.mark.parametrize(
    ("joins", "foreign_keys", "named"),
    [
        (JOIN_ITEM, [LINES], "sale.item_id refers to public.item.id"),
        (
            "LEFT JOIN price ON price.item_id = sale.item_id",
            [PRICES],
            "sale.item_id refers to public.price.item_id",
        ),
        (COUNT_NOTES, [ITEMS, NOTES], "item.id refers to public.note.item_id"),
    ],
    ids=["no foreign key", "a part of one", "rows that refer to what is looked up"],
)
def test_what_another_transaction_could_add_is_refused(
    joins: str, foreign_keys: list[frozenset], named: str
) -> None:
    with pytest.raises(PipelineError, match=named):
        publishing._locked_look_ups(plan(joins), foreign_keys)
