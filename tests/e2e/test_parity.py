"""Parity of an hour under the full mix while orders keep coming, on the real stack.

What is to be found is counted independently: from the outbox as the database itself keeps it, by
PostgreSQL's own judgement of what the hourly run's snapshot sees.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest
from lockstep.batch.run import run_window
from lockstep.contracts import (
    ORDERS_ENRICHED_BATCH,
    DifferenceClass,
    ReadMode,
    Role,
    StreamMode,
    Verdict,
    Window,
)
from lockstep.ledger import book
from lockstep.parity.check import check_window
from lockstep.parity.lost_orders import where_lost
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.shop.generator import generate
from lockstep.shop.moving_pizzas import open_round
from lockstep.soak.catching_up import wait_until_caught_up
from lockstep.soak.runner import bench_at_work
from lockstep.soak.workload import Rates, Workload
from lockstep.sources import change_topic
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.postgres import connect
from lockstep.supervise import launcher
from pyspark.sql import SparkSession

from tests.e2e.conftest import stack_of_its_own

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.services]

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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """All five streams at work."""
    with stack_of_its_own(tmp_path_factory.mktemp("parity"), ["connect"]) as settings:
        try:
            with bench_at_work(settings, tuple(StreamMode)):
                yield settings
        finally:
            launcher.stop_all(settings, "the tests are over")


@pytest.fixture(scope="module")
def evening(shop: Settings, spark: SparkSession) -> Window:
    """A window written by the hourly run in the middle of an evening, and an order of it that was
    not committed by then. The streams have all of it."""
    seed = random.randrange(1000)
    sys.stdout.write(f"seed {seed}\n")
    began = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    window = Window(began, began + timedelta(hours=2))
    moved = open_round(shop, 20, seed)
    with Workload(shop, moved, seed, Rates(moves=5.0, orders=10.0)) as work:
        generate(shop, rate=15, seconds=15, seed=seed)
        with connect(shop, Role.SHOP) as late, late.transaction():
            (order_id,) = late.execute(
                "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
                "SELECT max(id), now(), '{1}' FROM table_assignment RETURNING id"
            ).fetchone()
            late.execute("SELECT publish_order(%s, 'c')", [order_id])
            run_window(spark, shop, window, ReadMode.VIEW)
        work.go_on_for(5.0)
        wait_until_caught_up(shop, StreamMode, CAUGHT_UP_SECONDS_MAX)
    wait_until_caught_up(shop, StreamMode, CAUGHT_UP_SECONDS_MAX)
    return window


def enriched(payload: dict) -> tuple:
    pizzas = [
        (item["pizza"], None if item["price"] is None else Decimal(str(item["price"])))
        for item in payload["pizzas"]
    ]
    order_time = datetime.fromisoformat(payload["order_time"])
    return order_time, payload["client_name"], payload["table_name"], pizzas


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
    with psycopg.connect(**settings.connection(Role.OWNER)) as owner:
        published = owner.execute(PUBLISHED, cut).fetchall()
    before = {id_: (op, payload) for is_seen, id_, op, payload in published if is_seen}
    after = {id_: op for is_seen, id_, op, _ in published if not is_seen}
    alive = {id_ for id_, (op, _) in before.items() if op != "d"}
    assert alive == batch.keys()
    drifted = {id_ for id_ in batch if enriched(before[id_][1]) != batch[id_]}
    new = {id_ for id_, op in after.items() if id_ not in batch and op != "d"}
    changed = (new | (after.keys() & batch.keys())) - drifted
    return +Counter(dimension_drift=len(drifted), changed_after_cut=len(changed))


@pytest.mark.parametrize("mode", StreamMode)
def test_every_mode_agrees_but_for_what_the_database_explains(
    shop: Settings, evening: Window, spark: SparkSession, mode: StreamMode
) -> None:
    check = check_window(lambda: spark, shop, evening, mode)
    expected = expected_counts(shop, evening)
    counts = Counter({str(kind): n for kind, n in check.line.counts.items()})
    mismatches = [d for d in check.differences if d.kind is DifferenceClass.VALUE_MISMATCH]
    assert mismatches == []
    assert check.line.verdict is Verdict.PASS, check.line
    assert expected["changed_after_cut"] > 0
    assert expected["dimension_drift"] > 0
    if mode is StreamMode.LOOKUP:  # a raced row may have become right, or wrong in its own way
        counts["dimension_drift"] += counts.pop("lookup_race", 0)
        assert counts["dimension_drift"] >= 1
        assert set(counts) == set(expected)
    else:
        assert counts == expected
    assert book.lines(shop, mode)[-1] == check.line
    assert list(book.differences(shop, check.line.check_id)) == sorted(
        check.differences, key=lambda one: (one.kind, one.order_id)
    )


def test_of_an_order_it_is_known_whether_its_change_reached_the_topic(
    shop: Settings, evening: Window
) -> None:
    table = open_table(shop.table_uri(ORDERS_ENRICHED_BATCH))
    query = "SELECT order_id, origin FROM t ORDER BY order_id LIMIT 1"
    (order,) = run_query(query, {"t": table}).read_all().to_pylist()
    id_, tx, at = order["order_id"], order["origin"]["tx_id"], order["origin"]["committed_at"]
    found = where_lost(shop, [(id_, tx, at)])[id_]
    ((_, value),) = next(change_topic.read_again(shop, found["offset"], found["offset"] + 1))
    assert json.loads(value)["after"]["id"] == id_
    assert "never reached" in where_lost(shop, [(id_, tx + 10**6, at)])[id_]["topic"]
    assert "not searched" in where_lost(shop, [(id_, tx, None)])[id_]["topic"]


def test_the_command_says_what_differs_and_exits_with_the_verdict(
    shop: Settings, evening: Window
) -> None:
    bounds = ["--start", evening.start.isoformat(), "--end", evening.end.isoformat()]
    environment = os.environ | {
        "LOCKSTEP_HOME": str(shop.home),
        "LOCKSTEP_KAFKA_PORT": str(shop.kafka_port),
    }
    job = str(PROJECT_DIR / "jobs" / "check_parity.py")
    done = subprocess.run(
        [sys.executable, job, *bounds, "--mode", "outbox"],
        env=environment | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "outbox" in done.stdout
    assert DifferenceClass.CHANGED_AFTER_CUT in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    refused = subprocess.run(
        [sys.executable, job, "--start", "2015-01-01T11:00Z", "--end", "2015-01-01T12:00Z"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert refused.returncode == 2
    assert "no run replaced exactly the window" in refused.stderr
