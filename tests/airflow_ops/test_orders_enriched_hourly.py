"""The DAG as Airflow's processor sees it: loads fast, without Spark, and wired as promised."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import ParamValidationError
from pizzeria import names as pizzeria

from tests.airflow_ops.made_dags import dags_of
from tests.project import PROJECT_DIR

DAG_FILE = PROJECT_DIR / "dags" / "pipelines.py"
FORBIDDEN = ("pyspark", "great_expectations", "pandas", "deltalake", "psycopg")
PASSWORD = "correct-horse-battery-staple"

LOAD = """
import json, runpy, sys, time
import airflow.sdk
started = time.process_time()
runpy.run_path({file!r})
seconds = time.process_time() - started
from airflow.serialization.serialized_objects import DagSerialization
from lockstep.airflow_ops.dags.project import make_dags
from lockstep.settings import Settings
[dag] = make_dags(Settings.load(), {dag_id!r})
print(json.dumps({{
    "seconds": seconds,
    "modules": sorted(sys.modules),
    "dag": DagSerialization.to_dict(dag),
    "operators": {{t.task_id: repr(sorted(vars(t).items(), key=str)) for t in dag.tasks}},
}}, default=str))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What a fresh process gets from the DAG file, with every password in its environment."""
    home = tmp_path_factory.mktemp("airflow")
    passwords = {
        f"LOCKSTEP_{role}_PASSWORD": PASSWORD
        for role in ("ADMIN", "OWNER", "SHOP", "BATCH_READER", "CDC", "AIRFLOW", "AIRFLOW_UI")
    }
    environment = os.environ | passwords
    environment |= {"AIRFLOW_HOME": str(home), "LOCKSTEP_HOME": str(home)}
    environment |= {"AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_DIR / "plugins")}
    process = subprocess.run(
        [sys.executable, "-c", LOAD.format(file=str(DAG_FILE), dag_id=pizzeria.HOURLY_DAG_ID)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture
def dag():
    return dags_of()[pizzeria.HOURLY_DAG_ID]


def test_loading_the_dag_imports_neither_spark_nor_the_checks(loaded):
    roots = {module.partition(".")[0] for module in loaded["modules"]}
    assert not roots & set(FORBIDDEN)


def test_loading_the_dag_takes_well_under_two_seconds(loaded):
    assert loaded["seconds"] < 2


def test_no_password_is_in_the_serialized_dag_or_in_a_tasks_arguments(loaded):
    assert PASSWORD not in json.dumps(loaded["dag"])
    assert PASSWORD not in json.dumps(loaded["operators"])


def test_the_window_is_enriched_then_checked_then_announced(dag):
    enrich, check = (dag.get_task(name) for name in ("enrich", "check_quality"))
    assert check.upstream_task_ids == {"enrich"}
    assert enrich.outlets == []
    assert [asset.uri for asset in check.outlets] == [pizzeria.HOURLY_ASSET_URI]


def test_one_run_writes_at_any_time_and_failures_are_retried_with_back_off(dag):
    enrich = dag.get_task("enrich")
    assert enrich.max_active_tis_per_dag == 1
    assert enrich.retries == 3
    assert enrich.retry_exponential_backoff == 2
    assert enrich.max_retry_delay == timedelta(minutes=10)
    assert all(task.execution_timeout for task in dag.tasks)


def test_the_read_mode_is_chosen_from_the_modes_there_are(dag):
    assert dag.params["read"] == "view"
    assert dag.params.get_param("read").schema["enum"] == ["view", "tables"]
    with pytest.raises(ParamValidationError, match="guess"):
        dag.params["read"] = "guess"


def test_hours_missed_are_not_caught_up_and_the_page_explains_the_dag(dag):
    assert dag.catchup is False
    for words in ("backfill create", "Data Docs", "check_quality failed", "make setup"):
        assert words in dag.doc_md


def test_the_job_gets_the_window_and_the_read_mode(dag):
    """Rendered as Airflow renders it, with a run of the command line's kind."""
    from datetime import UTC, datetime
    from types import SimpleNamespace

    start = datetime(2015, 1, 1, 11, tzinfo=UTC)
    run = SimpleNamespace(
        logical_date=start,
        data_interval_start=start,
        data_interval_end=start + timedelta(hours=1),
        run_after=start + timedelta(minutes=65),
    )
    enrich = dag.get_task("enrich")
    context = {"dag_run": run, "params": {"read": "tables"}}
    arguments = enrich.render_template(enrich.application_args, context, dag.get_template_env())
    assert arguments == [
        "--start",
        "2015-01-01T11:00:00+00:00",
        "--end",
        "2015-01-01T12:00:00+00:00",
        "--read",
        "tables",
    ]
