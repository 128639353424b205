"""The comparison of each window that was written with each stream that runs."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task

from lockstep.airflow_names import SPARK_POOL
from lockstep.airflow_ops import parity
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.spark_jobs import spark_jars


def parity_dag(of: PipelineDags) -> DAG:
    """Runs when the hourly table's asset is updated, or by hand for a window."""
    hourly_table, pipeline = hourly_asset(of.names), of.names.pipeline
    with DAG(
        dag_id=of.names.parity_dag_id,
        **of.looks(
            "parity",
            "parity",
            "Each window of the hourly table compared with each stream, at the run's own cut",
            "parity.md",
        ),
        schedule=[hourly_table],
        catchup=False,
        is_paused_upon_creation=False,
        max_active_runs=2,
        params=window_params(default=""),
        user_defined_macros={"spark_jars": spark_jars},
        default_args=default_args(),
    ) as dag:

        @task
        def comparisons(triggering_asset_events=None, params=None):
            """The windows that were written, with each stream that is to run."""
            found = (triggering_asset_events or {}).get(hourly_table, [])
            events = [event.extra for event in found]
            return parity.comparisons(
                pipeline, events, params["window_start"], params["window_end"]
            )

        parity.CompareWindowOperator.partial(
            task_id="compare",
            doc_md="Compares a window with a stream as soon as that has passed the run's cut.",
            map_index_template="{{ task.mode }}, {{ task.window_start }}",
            # A session takes a gigabyte, and the streams have the cores.
            max_active_tis_per_dag=1,
            pool=SPARK_POOL,
            retries=2,
            retry_delay=timedelta(minutes=1),
            execution_timeout=timedelta(minutes=20),
            on_failure_callback=FailureNotifier(
                f"Batch and stream of {pipeline} differ, or could not be compared"
            ),
            **parity.comparison_arguments(of.settings),
        ).expand_kwargs(comparisons())
    return dag


def window_params(**given: str) -> dict[str, Param]:
    """The bounds of a window, asked for by hand. given: `default`, or nothing where they must be
    given."""
    limits = given or {"minLength": 1}
    value = (limits.pop("default"),) if "default" in limits else ()
    return {
        name: Param(*value, type="string", title=title, description=description, **limits)
        for name, title, description in (
            ("window_start", "Window start", "As the run had it, e.g. 2015-01-01T11:00Z."),
            ("window_end", "Window end", "Not part of the window, e.g. 2015-01-01T12:00Z."),
        )
    }
