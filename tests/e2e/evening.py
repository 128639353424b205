"""An hour of the full mix, and what its parity is to be, counted by the database itself.

By the outbox as the database keeps it, and PostgreSQL's judgement of what the run's snapshot
sees; with nothing of the product's comparison.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.postgres import connect
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.workload import Rates, Workload
from pizzeria.names import ORDERS_ENRICHED_BATCH, Login
from pizzeria.shop.generator import generate
from pizzeria.shop.moving_pizzas import open_round
from pyspark.sql import SparkSession

from tests.hourly_table import run_window

CAUGHT_UP_SECONDS_MAX = 240.0
PUBLISHED = """
SELECT DISTINCT ON (is_seen, order_id) is_seen, order_id, op, payload::json
FROM (
    SELECT
        id,
        order_id,
        op,
        payload,
        pg_visible_in_snapshot(
            (%(xmax)s - mod(%(xmax)s - xmin::text::bigint, 4294967296))::text::xid8,
            %(snapshot)s::pg_snapshot
        ) AS is_seen
    FROM orders_outbox
) AS published
ORDER BY is_seen, order_id, id DESC
"""
"""What each order came to by what the snapshot sees, and by what it does not."""


def evening(settings: Settings, spark: SparkSession, seed: int) -> Window:
    """A window written by the hourly run in the middle of an evening.

    An order of it was not committed by then. When this returns the streams have all of it.
    """
    began = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    window = Window(began, began + timedelta(hours=2))
    moved = open_round(settings, 20, seed)
    with Workload(settings, moved, seed, Rates(moves=5.0, orders=10.0)) as work:
        generate(settings, rate=15, seconds=10, seed=seed)
        with connect(settings, Login.SHOP) as late, late.transaction():
            (order_id,) = late.execute(
                "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
                "SELECT max(id), now(), '{1}' FROM table_assignment RETURNING id"
            ).fetchone()
            late.execute("SELECT publish_order(%s, 'c')", [order_id])
            run_window(spark, settings, window, ReadMode.VIEW)
        work.go_on_for(3.0)
    wait_until_caught_up(settings, StreamMode, CAUGHT_UP_SECONDS_MAX)
    return window


def expected_counts(settings: Settings, window: Window) -> Counter[str]:
    """Drifts and later changes, from the database's own outbox and the hourly table."""
    table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    rows = run_query("SELECT * FROM t", {"t": table}).read_all().to_pylist()
    batch = {
        row["order_id"]: (
            row["order_time"],
            row["client_name"],
            row["table_name"],
            [(p["pizza"], p["price"]) for p in row["pizzas"]],
        )
        for row in rows
    }
    snapshot = rows[0]["cut_snapshot"]
    cut = {"snapshot": snapshot, "xmax": int(snapshot.split(":")[1])}
    with psycopg.connect(**settings.connection(Login.OWNER)) as owner:
        published = owner.execute(PUBLISHED, cut).fetchall()
    before = {id_: (op, payload) for is_seen, id_, op, payload in published if is_seen}
    after = {id_: op for is_seen, id_, op, _ in published if not is_seen}
    alive = {
        id_
        for id_, (op, payload) in before.items()
        if op != "d" and window.start <= datetime.fromisoformat(payload["order_time"]) < window.end
    }
    assert alive == batch.keys()
    drifted = {id_ for id_ in batch if _enriched(before[id_][1]) != batch[id_]}
    new = {id_ for id_, op in after.items() if id_ not in batch and op != "d"}
    changed = (new | (after.keys() & batch.keys())) - drifted
    return +Counter(dimension_drift=len(drifted), changed_after_cut=len(changed))


def _enriched(payload: dict) -> tuple:
    pizzas = [
        (item["pizza"], None if item["price"] is None else Decimal(str(item["price"])))
        for item in payload["pizzas"]
    ]
    order_time = datetime.fromisoformat(payload["order_time"])
    return order_time, payload["client_name"], payload["table_name"], pizzas
