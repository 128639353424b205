"""The five streams on the real stack, through crashes; `make soak` does the same for hours.

One driver and one database for all: each test adds to what the ones before did.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from lockstep.ledger import book
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.check import Check, check_window
from lockstep.parity.comparison import OtherModes
from lockstep.parity.lost_orders import where_lost
from lockstep.parity.readiness import readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.repair.changed_rows import How
from lockstep.repair.plan import plan_repair
from lockstep.repair.run import repair_window
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import of_time
from lockstep.sources import change_topic
from lockstep.sources.delta import open_table, run_query
from lockstep.supervise import launcher
from lockstep.supervise.errors import StreamBusyError
from lockstep_tools.soak import kills
from lockstep_tools.soak.kills import Target
from lockstep_tools.soak.report import Progress
from lockstep_tools.soak.scenarios import (
    Bench,
    FullMix,
    KillsInTurn,
    PizzaPlaceReplay,
    Redelivery,
    Scenario,
)
from lockstep_tools.soak.totals import current_totals
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH
from pyspark.sql import SparkSession

from tests.e2e.evening import CAUGHT_UP_SECONDS_MAX, evening, expected_counts
from tests.hourly_table import SMALL_PIZZERIA
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.e2e, pytest.mark.services]

TOTALS = json.loads((SMALL_PIZZERIA / "totals.json").read_text(encoding="utf-8"))


def findings_of(bench: Bench, scenario: Scenario) -> list[str]:
    progress = Progress(scenario.name, scenario.seed, scenario.total)
    found = [
        str(finding)
        for number in range(scenario.total)
        for finding in scenario.step(bench, number, progress)
    ]
    print(progress.figures)  # noqa: T201 - shown when the test fails
    return found


def test_a_data_set_gives_exactly_its_totals_in_every_mode(bench: Bench) -> None:
    assert findings_of(bench, PizzaPlaceReplay(SMALL_PIZZERIA)) == []
    for mode in StreamMode:
        found = current_totals(bench.settings, mode)
        assert (found.orders, found.pizzas) == (TOTALS["orders"], TOTALS["pizzas"])
        assert str(found.revenue) == TOTALS["revenue"]


def test_the_full_mix_is_the_same_in_every_mode_and_what_the_database_saw(bench: Bench) -> None:
    assert findings_of(bench, FullMix(seed=random.randrange(1000), seconds=15, rate=20)) == []


def test_kills_lose_double_and_spoil_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # How soon it is back, within a minute, is for `make soak` to measure on a quiet machine.
    monkeypatch.setattr(kills, "BACK_SECONDS_MAX", 180.0)
    targets = [Target.DRIVER, Target.CONNECT, Target.KAFKA, Target.POSTGRES]
    assert findings_of(bench, KillsInTurn(targets, random.randrange(1000))) == []


def test_what_is_delivered_again_changes_nothing(bench: Bench) -> None:
    assert findings_of(bench, Redelivery(random.randrange(1000), total=1)) == []


def test_a_second_start_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(StreamBusyError, match="outbox"):
        launcher.start(bench.settings, [StreamMode.OUTBOX], "twice")
    assert bench.check() == []


@pytest.fixture(scope="module")
def written(bench: Bench, spark: SparkSession) -> Window:
    """A window that the hourly run has written while orders came."""
    seed = random.randrange(1000)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    return evening(bench.settings, spark, seed)


def plan_of_any_share_of_races() -> Plan:
    """How late look-ups come is for a quiet machine; here each race has to be explained."""
    plan = plan_named(PROJECT_DIR, MANIFEST)
    tolerate = plan.manifest.tolerate.model_copy(update={"raced_share_max": Decimal(1)})
    return replace(plan, manifest=plan.manifest.model_copy(update={"tolerate": tolerate}))


PLAN = plan_of_any_share_of_races()


def compared(
    bench: Bench,
    window: Window,
    spark: SparkSession,
    mode: StreamMode,
    others: OtherModes | None = None,
) -> Check:
    wait_until_past_the_cut(bench.settings, window, mode)
    ready = readiness(bench.settings, PLAN, window, mode)
    return check_window(
        lambda: spark,
        Sides(bench.settings, PLAN, window, Mode(mode), ready),
        others or OtherModes(),
    )


@pytest.mark.spark
@pytest.mark.parametrize("mode", StreamMode)
def test_each_mode_agrees_with_the_hourly_run_but_for_what_the_database_explains(
    bench: Bench, written: Window, spark: SparkSession, mode: StreamMode
) -> None:
    check = compared(bench, written, spark, mode)
    expected = expected_counts(bench.settings, written)
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
    assert book.lines(bench.settings, mode)[-1] == check.line


@pytest.mark.spark
def test_of_an_order_it_is_known_whether_its_change_reached_the_topic(
    bench: Bench, written: Window
) -> None:
    table = open_table(bench.settings.table_uri(ORDERS_ENRICHED_BATCH))
    # Other windows were written by tests before, whose orders have the same ids.
    of_window = of_time(written, "order_time")
    query = f"SELECT order_id, origin FROM t WHERE {of_window} ORDER BY order_id LIMIT 1"
    (order,) = run_query(query, {"t": table}).read_all().to_pylist()
    id_, tx, at = order["order_id"], order["origin"]["tx_id"], order["origin"]["committed_at"]
    found = where_lost(bench.settings, PLAN.fact, [((id_,), tx, at)])[id_,]
    offset = found.get("offset")
    assert offset is not None, found
    ((_, value),) = next(change_topic.read_again(bench.settings, offset, offset + 1))
    assert json.loads(value)["after"]["id"] == id_
    later = at + timedelta(seconds=1)
    never = where_lost(bench.settings, PLAN.fact, [((id_,), tx + 10**6, later)])[id_,]
    assert "never reached" in never["topic"]
    undated = where_lost(bench.settings, PLAN.fact, [((id_,), tx, None)])[id_,]
    assert "not searched" in undated["topic"]


@pytest.mark.spark
def test_the_comparison_as_a_job_says_what_differs_and_exits_with_the_verdict(
    bench: Bench, written: Window
) -> None:
    bounds = ["--start", written.start.isoformat(), "--end", written.end.isoformat()]
    done = parity_job(bench.settings, *bounds, "--mode", "outbox")
    assert done.returncode == 0, done.stderr
    assert DifferenceClass.CHANGED_AFTER_CUT in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    refused = parity_job(bench.settings, "--start", "2015-01-01T11Z", "--end", "2015-01-01T12Z")
    assert refused.returncode == 2
    assert "no run replaced exactly the window" in refused.stderr


@pytest.mark.spark
def test_once_repaired_nothing_has_changed_after_the_cut_in_any_mode(
    bench: Bench, written: Window, spark: SparkSession
) -> None:
    plan = plan_repair(bench.settings, written)
    assert {How.NEW} <= {one.how for one in plan.changed}
    done = repair_window(bench.settings, written, plan.digests, "a test")
    assert len(done.row_keys) == len(plan.changed)
    others = OtherModes()  # what they have in common is evaluated once, as `parity check` does
    for mode in StreamMode:
        wait_until_past_the_cut(bench.settings, written, mode)
        line = compared(bench, written, spark, mode, others).line
        assert (line.verdict, line.orders_compared) == (Verdict.PASS, done.orders_after), line
        assert DifferenceClass.CHANGED_AFTER_CUT not in line.counts
        assert "were repaired" in line.reason


def wait_until_past_the_cut(settings: Settings, window: Window, mode: StreamMode) -> None:
    """A quiet stream commits its frontier now and then."""
    deadline = time.monotonic() + CAUGHT_UP_SECONDS_MAX
    while (ready := readiness(settings, PLAN, window, mode)).verdict is Verdict.WAITING:
        assert time.monotonic() < deadline, ready.reason
        time.sleep(1)


def parity_job(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROJECT_DIR / "jobs" / "check_parity.py"), *arguments],
        env=os.environ
        | {
            "LOCKSTEP_HOME": str(settings.home),
            "LOCKSTEP_KAFKA_PORT": str(settings.kafka_port),
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
