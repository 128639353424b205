"""The hourly enrichment of the pizzeria's orders: enrich a window, check it, announce it.

Wiring only. Windows, timetable, deadline and tasks are lockstep.airflow_ops; the work is jobs/'s.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from lockstep.airflow_ops import deadlines, enrich
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.quality_gate import CheckQualityOperator
from lockstep.airflow_ops.spark_jobs import SparkJobOperator, spark_jars
from lockstep.airflow_ops.timetables import HourlyWindowTimetable
from lockstep.model.modes import ReadMode
from lockstep.settings import Settings

SETTINGS = Settings.load()
NAMES = SETTINGS.names

with DAG(
    dag_id=NAMES.hourly_dag_id,
    dag_display_name="Orders enriched, hourly",
    description="Each hour's orders, enriched from PostgreSQL into the Delta table, and checked",
    doc_md=str(Path(__file__).with_suffix(".md")),
    schedule=HourlyWindowTimetable(),
    start_date=datetime(2015, 1, 1, tzinfo=UTC),  # the first hour of the pizzeria's history
    catchup=False,
    is_paused_upon_creation=False,  # a paused DAG's backfills wait, and nothing says so
    # Runs overlap: one window is checked while the next is written. Writers never do (below).
    max_active_runs=4,
    deadline=deadlines.window_deadline(),
    params={
        "read": Param(
            ReadMode.VIEW.value,
            enum=[mode.value for mode in ReadMode],
            title="Read mode",
            description="view: PostgreSQL joins. tables: Spark joins, with the streams' own SQL. "
            "Both give the same rows.",
        )
    },
    user_defined_macros={"window_of": enrich.window_of, "spark_jars": spark_jars},
    tags=["lockstep", NAMES.pipeline, "hourly"],
    default_args={
        "owner": "lockstep",
        # One window at a time for each task, over all runs, scheduled and backfilled: one writer
        # for the table, and one check next to it, which two cores carry.
        "max_active_tis_per_dag": 1,
        "retries": 3,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=10),
    },
):
    enrich_orders = SparkJobOperator(
        task_id="enrich_orders",
        doc_md="Replaces exactly the run's window in the hourly table, or leaves it as it was.",
        execution_timeout=timedelta(minutes=20),
        **enrich.submit_arguments(SETTINGS),
    )
    check_quality = CheckQualityOperator(
        task_id="check_quality",
        doc_md="Checks the window. Only if nothing failed, DAGs waiting for the table may start.",
        execution_timeout=timedelta(minutes=10),
        outlets=[hourly_asset(NAMES)],
    )
    enrich_orders >> check_quality
