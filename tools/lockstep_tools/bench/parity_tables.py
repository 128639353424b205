"""An hourly table and a stream's change log of any size that differ by design, and by how much.

Order i of the window commits at LSN 100 i. Near the middle of the first half the prices of some
pizzas change, so that the orders of before that have one drift; after the cut some orders change
and some are new.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import (
    CHANGE_COLUMNS,
    CHANGE_PARTITION,
    HISTORY_COLUMNS,
    HISTORY_PARTITION,
    HOURLY_COLUMNS,
    HOURLY_PARTITION,
    ORIGIN,
)
from lockstep.settings import Settings
from pizzeria.names import (
    CLIENTS,
    MANIFEST,
    ORDERS,
    ORDERS_ENRICHED_BATCH,
    PIZZAS,
    SOURCE_HISTORY,
    TABLE_ASSIGNMENT,
    TABLES,
    change_log_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODE = StreamMode.TEMPORAL
START = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=1))
PIZZA_COUNT, CLIENT_COUNT, TABLE_COUNT = 96, 100_000, 40
FIRST_DRIFTING_PIZZA = 7
ONE_IN_CHANGED, ONE_IN_NEW = 500, 1000
"""Of so many orders one changes after the cut, and one more comes."""
_ORDER = {
    "order_id": "i",
    "order_time": f"timestamp '{START.isoformat()}' + make_dt_interval(0, 0, 0, 3599.0 * i / n)",
    "client_name": f"'Client ' || i % {CLIENT_COUNT}",
    "table_name": f"'Table ' || i % {TABLE_COUNT}",
    "tx_id": "1000 + 2 * i",
    "commit_lsn": "100 * i",
    "pizza_ids": f"transform(sequence(0, i % 4), k -> int((7 * i + 13 * k) % {PIZZA_COUNT}))",
}


@dataclass(frozen=True)
class MadeTables:
    """Both sides as the comparison takes them, and the counts that it must come to."""

    ready: Readiness
    expected: dict[DifferenceClass, int]


def make_tables(
    spark: "SparkSession", settings: Settings, orders: int, drifting_pizzas: int = 1
) -> MadeTables:
    """Write the hourly table, the change log and the source's history of so many orders.

    drifting_pizzas: how many change their price; each makes about 1 % of the orders drift.
    """
    changed_at = orders * 3 // 8
    ordered = spark.range(1, orders + orders // ONE_IN_NEW + 1).selectExpr(
        "id AS i", f"{orders} AS n"
    )
    ordered = ordered.selectExpr("i", *(f"{sql} AS {name}" for name, sql in _ORDER.items()))
    ordered = ordered.withColumnRenamed("order_time", "committed_at")
    in_hour = ordered.where(f"i <= {orders}")
    _write(spark, settings, ORDERS_ENRICHED_BATCH, _batch(in_hour, drifting_pizzas))
    log = _change_log(ordered, orders, changed_at, drifting_pizzas)
    _write(spark, settings, change_log_table(MODE), log)
    history = _history(spark, in_hour, changed_at, drifting_pizzas)
    _write(spark, settings, SOURCE_HISTORY, history)
    drifting = ordered.where(_drifts(changed_at, drifting_pizzas)).count()
    expected = {
        DifferenceClass.DIMENSION_DRIFT: drifting,
        DifferenceClass.CHANGED_AFTER_CUT: orders // ONE_IN_NEW
        + _changed_and_agreeing(ordered, orders, _drifts(changed_at, drifting_pizzas)),
    }
    return MadeTables(_ready(orders), expected)


def _is_drifting(pizza: str, drifting_pizzas: int) -> str:
    last = FIRST_DRIFTING_PIZZA + drifting_pizzas - 1
    return f"{pizza} BETWEEN {FIRST_DRIFTING_PIZZA} AND {last}"


def _drifts(changed_at: int, drifting_pizzas: int) -> str:
    """The condition for an order that has the old price of a pizza."""
    return f"i < {changed_at} AND exists(pizza_ids, p -> {_is_drifting('p', drifting_pizzas)})"


def _pizzas(price_of_drifting: str, drifting_pizzas: int) -> str:
    price = f"IF({_is_drifting('p', drifting_pizzas)}, {price_of_drifting}, 10 + p)"
    return (
        "transform(pizza_ids, p -> struct('Pizza ' || p AS pizza, "
        f"CAST({price} AS DECIMAL(10, 2)) AS price))"
    )


def _batch(orders: "DataFrame", drifting_pizzas: int) -> "DataFrame":
    return orders.selectExpr(
        "order_id",
        "committed_at AS order_time",
        "client_name",
        "table_name",
        f"{_pizzas('99', drifting_pizzas)} AS pizzas",
        f"to_date(committed_at) AS {HOURLY_PARTITION}",
        "'the run' AS run_id",
        "'' AS cut_snapshot",
        "0L AS cut_lsn",
        "struct(tx_id, committed_at) AS origin",
    )


def _change_log(
    orders: "DataFrame", in_hour: int, changed_at: int, drifting_pizzas: int
) -> "DataFrame":
    price = f"IF(i < {changed_at}, 17, 99)"
    rows = orders.selectExpr(
        "order_id",
        # What comes after the cut is of the window by its time.
        f"timestamp '{START.isoformat()}'"
        f" + make_dt_interval(0, 0, 0, 3599.0 * least(i, {in_hour}) / {in_hour}) AS order_time",
        "client_name",
        "table_name",
        f"{_pizzas(price, drifting_pizzas)} AS pizzas",
        "'c' AS op",
        "tx_id",
        "commit_lsn",
        "false AS is_raced",
        *(f"committed_at AS {name}" for name in ("committed_at", "captured_at", "seen_at")),
        "committed_at AS written_at",
        f"to_date(committed_at) AS {CHANGE_PARTITION}",
    )
    later = rows.where(f"order_id <= {in_hour} AND order_id % {ONE_IN_CHANGED} = 0").selectExpr(
        *(
            {
                "op": "'u' AS op",
                "tx_id": f"tx_id + {4 * in_hour} AS tx_id",
                "commit_lsn": f"commit_lsn + {200 * in_hour} AS commit_lsn",
            }.get(name, name)
            for name in rows.columns
        )
    )
    return rows.union(later)


def _history(
    spark: "SparkSession", orders: "DataFrame", changed_at: int, drifting_pizzas: int
) -> "DataFrame":
    def rows(of: "DataFrame", table: str, row: Mapping[str, str], **of_change: str) -> "DataFrame":
        """row: what each column of the table is, in SQL."""
        fields = ", ".join(f"{sql} AS {name}" for name, sql in row.items())
        values = {
            "table": f"'public.{table}'",
            "row_key": f"'[' || {row['id']} || ']'",
            "op": "'c'",
            "row": f"to_json(struct({fields}))",
            "tx_id": "NULL",
            "commit_lsn": "0L",
            "committed_at": f"timestamp '{START.isoformat()}'",
            **of_change,
        }
        return of.selectExpr(
            *(
                f"CAST({values[name]} AS {kind}) AS `{name}`"
                for name, kind in HISTORY_COLUMNS.items()
            )
        )

    def named(kind: str) -> dict[str, str]:
        return {"id": "id", "name": f"'{kind} ' || id"}

    price = f"CAST(IF({_is_drifting('id', drifting_pizzas)}, 17, 10 + id) AS STRING)"
    last_drifting = FIRST_DRIFTING_PIZZA + drifting_pizzas
    of_order = {"tx_id": "tx_id", "commit_lsn": "commit_lsn", "committed_at": "committed_at"}
    order = {
        "id": "order_id",
        "table_assignment_id": "order_id",
        "order_time": "committed_at",
        "pizzas": "pizza_ids",
    }
    seating = {
        "id": "order_id",
        "client_id": f"i % {CLIENT_COUNT}",
        "table_id": f"i % {TABLE_COUNT}",
    }
    parts = [
        rows(spark.range(CLIENT_COUNT), CLIENTS, named("Client")),
        rows(spark.range(TABLE_COUNT), TABLES, named("Table")),
        rows(spark.range(PIZZA_COUNT), PIZZAS, named("Pizza") | {"price": price}),
        rows(
            spark.range(FIRST_DRIFTING_PIZZA, last_drifting),
            PIZZAS,
            named("Pizza") | {"price": "'99.00'"},
            op="'u'",
            tx_id=f"1000 + 2 * {changed_at} - 1",
            commit_lsn=f"100 * {changed_at} - 50",
        ),
        rows(orders, TABLE_ASSIGNMENT, seating, **of_order),
        rows(orders, ORDERS, order, **of_order),
    ]
    whole, *rest = parts
    for part in rest:
        whole = whole.union(part)
    return whole


def _changed_and_agreeing(orders: "DataFrame", in_hour: int, drifts: str) -> int:
    """Orders changed after the cut that have no class of greater weight."""
    changed = f"i <= {in_hour} AND i % {ONE_IN_CHANGED} = 0"
    return orders.where(f"({changed}) AND NOT ({drifts})").count()


_PARTITIONS = {
    ORDERS_ENRICHED_BATCH: (HOURLY_PARTITION,),
    change_log_table(MODE): (CHANGE_PARTITION,),
    SOURCE_HISTORY: (HISTORY_PARTITION,),
}


def _columns(settings: Settings, table: str) -> dict[str, str]:
    """Name and Delta type of each column of one of the tables."""
    if table == SOURCE_HISTORY:
        return HISTORY_COLUMNS
    result = plan_named(settings.project, MANIFEST).result.columns
    if table == ORDERS_ENRICHED_BATCH:
        return {**result, **HOURLY_COLUMNS, **ORIGIN}
    return {**result, **CHANGE_COLUMNS}


def _write(spark: "SparkSession", settings: Settings, table: str, rows: "DataFrame") -> None:
    columns = _columns(settings, table)
    typed = rows.selectExpr(
        *(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in columns.items())
    )
    writer = typed.write.format("delta").partitionBy(*_PARTITIONS[table]).mode("overwrite")
    writer.save(settings.table_uri(table))


def _ready(orders: int) -> Readiness:
    xmax = 1000 + 2 * orders + 1
    cut = Cut("the run", f"{xmax}:{xmax}:", 100 * orders, WINDOW.end)
    return Readiness(
        run=RunCommit(WINDOW, ReadMode.VIEW, orders, cut),
        batch_version=0,
        stream_version=0,
        frontier=300 * orders,
        verdict=None,
        reason="",
    )
