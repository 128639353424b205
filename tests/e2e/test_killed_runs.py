"""A run killed at any moment leaves the table as it was, or complete; its retry completes it."""

import os
import random
import signal
import subprocess
import sys
import time

import psycopg
import pytest
from lockstep.model.modes import ReadMode
from lockstep.settings import Settings
from pizzeria.names import Login
from pyspark.sql import SparkSession

from tests.hourly_table import DAYS, EXPECTED, found, rows_of, run_window
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.services]

KILLS = 4
JOB = PROJECT_DIR / "jobs" / "run_window.py"
JOB_SECONDS_MAX = 120


def start_job(settings: Settings, mode: ReadMode) -> subprocess.Popen[bytes]:
    window = ["--start", DAYS.start.isoformat(), "--end", DAYS.end.isoformat()]
    return subprocess.Popen(
        [sys.executable, str(JOB), *window, "--read", mode],
        env=os.environ | {"LOCKSTEP_LAKEHOUSE": settings.lakehouse_uri},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def raise_prices(settings: Settings) -> None:
    """Make the next run's rows differ from those in the table."""
    with psycopg.connect(**settings.connection(Login.SHOP)) as shop:
        shop.execute("UPDATE pizzas SET price = price + 1")


def test_a_run_killed_anywhere_changes_nothing_and_its_retry_completes_it(
    spark: SparkSession, pizzeria: Settings
) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    rng = random.Random(seed)
    run_window(spark, pizzeria, DAYS, ReadMode.VIEW)
    raise_prices(pizzeria)
    began = time.monotonic()
    assert start_job(pizzeria, ReadMode.VIEW).wait(JOB_SECONDS_MAX) == 0
    whole = time.monotonic() - began
    killed = 0
    for number in range(3 * KILLS):
        if killed == KILLS:
            break
        before = rows_of(pizzeria)
        raise_prices(pizzeria)
        mode = rng.choice(list(ReadMode))
        # The first third of a run is Python and Spark starting up.
        moment = rng.uniform(whole / 3, whole * 0.95)
        began = time.monotonic()
        job = start_job(pizzeria, mode)
        try:
            job.wait(moment)
            whole = min(whole, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            killed += 1
        left = rows_of(pizzeria)
        run_window(spark, pizzeria, DAYS, mode)
        after = rows_of(pizzeria)
        context = f"seed {seed}, kill {number} after {moment:.2f} s, read {mode}"
        assert left in (before, after), context
        assert after != before, context
        assert found(pizzeria)[:2] == EXPECTED[:2], context
    assert killed == KILLS, f"seed {seed}: only {killed} runs were still at work when killed"
