"""Airflow's backfill, hour by hour, gives the same rows as one run over all the hours."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
from lockstep.airflow_admin.client import AirflowClient, signed_in
from lockstep.airflow_admin.environment import airflow_home
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.settings import Settings
from pizzeria.names import HOURLY_DAG_ID
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import read_pizza_place
from pyspark.sql import SparkSession

from tests.conftest import SPARK_EVENTS
from tests.hourly_table import SMALL_PIZZERIA, TOTALS, empty_pizzeria, rows_of, run_window
from tests.secret_scan import leaks

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.services]

EVENING = Window.parse("2024-02-28T16:00", "2024-02-28T18:00")
"""Its first hour is without orders."""
HOURS = [
    Window(EVENING.start + timedelta(hours=n), EVENING.start + timedelta(hours=n + 1))
    for n in range(2)
]
DAG_SECONDS_MAX, BACKFILL_SECONDS_MAX = 120, 1500


def wait_for_the_dag(airflow: AirflowClient) -> None:
    deadline = time.monotonic() + DAG_SECONDS_MAX
    while not airflow.knows(HOURLY_DAG_ID):
        assert time.monotonic() < deadline, "Airflow has not read the DAG"
        time.sleep(1)


def states_at_the_end(airflow: AirflowClient) -> list[str]:
    deadline = time.monotonic() + BACKFILL_SECONDS_MAX
    while True:
        states = [run.state for run in airflow.runs(HOURLY_DAG_ID, HOURS[0], HOURS[-1])]
        if len(states) == len(HOURS) and set(states) <= {"success", "failed"}:
            return states
        assert time.monotonic() < deadline, f"after {BACKFILL_SECONDS_MAX} s: {states}"
        time.sleep(2)


@pytest.fixture(scope="module")
def backfilled(airflow_stack: Settings) -> Settings:
    """The evening's hours, each run by Airflow."""
    empty_pizzeria(airflow_stack)
    load(airflow_stack, read_pizza_place(SMALL_PIZZERIA))
    with signed_in(airflow_stack) as airflow:
        wait_for_the_dag(airflow)
        airflow.backfill(HOURLY_DAG_ID, HOURS[0], HOURS[-1])
        assert states_at_the_end(airflow) == ["success"] * len(HOURS)
    return airflow_stack


def test_hours_backfilled_equal_one_run_over_all_of_them(
    spark: SparkSession, backfilled: Settings, tmp_path: Path
) -> None:
    at_once = backfilled.model_copy(update={"lakehouse": str(tmp_path / "lakehouse")})
    run_window(spark, at_once, EVENING, ReadMode.TABLES)
    of_airflow = [row for row in rows_of(backfilled) if row["window_date"] == EVENING.start.date()]
    assert of_airflow == rows_of(at_once)
    starts = [f"{hour.start:%Y-%m-%dT%H:%M:%SZ}" for hour in HOURS]
    by_hour = [TOTALS["by_hour"].get(start, {"orders": 0}) for start in starts]
    assert [one["orders"] for one in by_hour] == [0, 15]
    assert len(of_airflow) == sum(one["orders"] for one in by_hour)
    assert (backfilled.home / "quality" / "data_docs" / "index.html").exists()


def test_no_password_is_seen_where_others_may_look(backfilled: Settings) -> None:
    """Neither in the tasks' logs, nor in event logs, service logs, arguments or REST answers."""
    tasks = [*(airflow_home(backfilled) / "logs").rglob("attempt=*.log")]
    assert any("spark-submit" in log.read_text(errors="replace") for log in tasks)
    assert len([*(backfilled.home / SPARK_EVENTS).rglob("*")]) >= len(HOURS)
    assert leaks(backfilled) == []
