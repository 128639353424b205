"""The run of a pipeline: make a window's rows, check them, announce them."""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from lockstep.airflow_names import SPARK_POOL
from lockstep.airflow_ops import deadlines, enrich
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.quality_gate import CheckQualityOperator
from lockstep.airflow_ops.spark_jobs import SparkJobOperator, spark_jars
from lockstep.airflow_ops.timetables import WindowTimetable
from lockstep.model.modes import ReadMode
from lockstep.model.window import HOUR
from lockstep.model.windows import Windows


def hourly_dag(of: PipelineDags) -> DAG:
    """Runs on the manifest's schedule; one that is broken is not scheduled."""
    names, windows = of.names, of.windows
    with DAG(
        dag_id=names.hourly_dag_id,
        **of.looks(
            "hourly",
            "hourly" if windows == Windows() else "batch",
            "Each window's rows, made from PostgreSQL into the Delta table, and checked",
            "hourly.md",
            WINDOWS=_when(of),
        ),
        schedule=_schedule(of),
        start_date=datetime(2015, 1, 1, tzinfo=UTC),  # no window of before is run
        catchup=False,
        # A pipeline is switched on by a person, when its source is captured; but for the project's
        # own, since a paused DAG's backfills wait, and nothing says so.
        is_paused_upon_creation=not of.is_own,
        # Runs overlap: one window is checked while the next is written. Writers never do (below).
        max_active_runs=4,
        deadline=deadlines.window_deadline(of.every or HOUR),
        params={
            "read": Param(
                (ReadMode.VIEW if of.has_view else ReadMode.TABLES).value,
                enum=[mode.value for mode in ReadMode] if of.has_view else [ReadMode.TABLES.value],
                title="Read mode",
                description="view: PostgreSQL joins. tables: Spark joins, with the streams' own "
                "SQL. Both give the same rows.",
            )
        },
        user_defined_macros={"window_of": enrich.window_of(windows), "spark_jars": spark_jars},
        default_args=default_args(
            # One window at a time for each task, over all runs, scheduled and backfilled: one
            # writer for the table, and one check next to it, which two cores carry.
            max_active_tis_per_dag=1,
            retries=3,
            retry_delay=timedelta(seconds=30),
            retry_exponential_backoff=2,
            max_retry_delay=timedelta(minutes=10),
        ),
    ) as dag:
        make = SparkJobOperator(
            task_id="enrich",
            doc_md="Replaces exactly the run's window in the hourly table, or leaves it as it was.",
            execution_timeout=timedelta(minutes=20),
            pool=SPARK_POOL,
            **enrich.submit_arguments(of.settings, has_windows=windows is not None),
        )
        if windows is None:
            make.outlets.append(hourly_asset(names))
            return dag
        check_quality = CheckQualityOperator(
            task_id="check_quality",
            doc_md="Checks the window. Only if nothing failed, DAGs that wait for the table start.",
            pipeline=names.pipeline,
            window_start="{{ window_of(dag_run).start.isoformat() }}",
            window_end="{{ window_of(dag_run).end.isoformat() }}",
            execution_timeout=timedelta(minutes=10),
            outlets=[hourly_asset(names)],
        )
        make >> check_quality
    return dag


def _schedule(of: PipelineDags) -> WindowTimetable | timedelta | None:
    if of.is_broken:
        return None
    return WindowTimetable(of.windows) if of.windows else of.every


def _when(of: PipelineDags) -> str:
    if of.windows is None:
        often = f"every {of.every}" if of.every else "when it is triggered"
        return f"All rows at once, {often}"
    if of.windows == Windows():
        return (
            f"Every hour at minute 5, for the rows of `{of.fact}` of the hour before, "
            "`[hh-1:00, hh:00)` UTC"
        )
    return f"{WindowTimetable(of.windows).description}, for the rows of `{of.fact}` of that window"
