"""How the job is submitted and how its failure reads."""

import json
import os

import pytest
from airflow.sdk.exceptions import AirflowException
from lockstep.airflow_ops import enrich
from lockstep.airflow_ops.spark_jobs import SparkJobOperator, spark_jars
from lockstep.errors import LakehouseError
from lockstep.settings import Settings
from lockstep.sources import hourly_runs
from lockstep.spark import FEW_ROWS

CONNECTION = '{"conn_type": "spark", "host": "local[1]"}'


@pytest.fixture
def submit(monkeypatch, tmp_path):
    """Run the operator with a spark-submit that does this and ends with this code."""

    def run(code: int, *lines: str, body: str = "") -> None:
        program = tmp_path / "spark-submit"
        body = "\n".join((body, *(f"printf '%s\\n' {line!r}" for line in lines)))
        program.write_text(f"#!/bin/sh\n{body}\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", CONNECTION)
        arguments = enrich.submit_arguments(Settings.load(), has_windows=True) | {"jars": "a.jar"}
        SparkJobOperator(task_id="enrich", **arguments).execute({})

    return run


def test_a_failed_job_reads_as_its_own_one_line_error(submit):
    with pytest.raises(AirflowException) as failure:
        submit(2, "error: not this one", "error: the disk is full", "INFO ShutdownHookManager: bye")
    assert str(failure.value) == "the disk is full"
    assert failure.value.__suppress_context__


def test_a_job_that_dies_silently_reads_as_the_provider_says_it(submit):
    with pytest.raises(AirflowException, match=r"Error code is: 137"):
        submit(137, "WARN something")


def test_a_job_that_succeeds_raises_nothing_whatever_it_prints(submit):
    submit(0, "error: of the past")


def test_a_job_inherits_no_secret_of_airflow(submit, monkeypatch, tmp_path):
    from lockstep.airflow_admin.environment import airflow_environment

    known = Settings(home=tmp_path, airflow_password="canary-of-the-metadata-database")
    given = airflow_environment(known)
    keys = json.loads((tmp_path / "airflow" / "keys.json").read_text()).values()
    secrets = ("canary-of-the-metadata-database", *keys)
    hidden = {name: given[name] for name in given if any(one in given[name] for one in secrets)}
    assert len(hidden) >= 1 + len(keys)
    for name, value in hidden.items():
        monkeypatch.setenv(name, value)
    submit(0, body=f"env >{tmp_path}/inherited")
    inherited = (tmp_path / "inherited").read_text()
    assert "PATH=" in inherited
    assert [one for one in secrets if one in inherited] == []


def test_the_jars_are_looked_up_only_when_the_task_runs(monkeypatch, tmp_path):
    from lockstep.jars.errors import JarsIncompleteError

    monkeypatch.setenv("LOCKSTEP_JARS_DIR", str(tmp_path))
    assert (
        enrich.submit_arguments(Settings.load(), has_windows=True)["jars"] == "{{ spark_jars() }}"
    )
    with pytest.raises(JarsIncompleteError):
        spark_jars()


@pytest.mark.parametrize(
    ("rows", "is_interpreted"),
    [(FEW_ROWS, True), (FEW_ROWS + 1, False), (None, False), (LakehouseError("torn"), False)],
)
def test_a_job_after_a_run_of_few_rows_compiles_little(
    submit, monkeypatch, tmp_path, rows, is_interpreted
):
    def of_newest_run(settings):
        assert settings.names.pipeline == "orders_enriched"
        if isinstance(rows, LakehouseError):
            raise rows
        return rows

    monkeypatch.setattr(hourly_runs, "rows_of_newest_run", of_newest_run)
    submit(0, body=f'echo "$@" >{tmp_path}/command')
    command = (tmp_path / "command").read_text()
    assert ("spark.sql.codegen.factoryMode=NO_CODEGEN" in command) == is_interpreted
    assert ("-XX:TieredStopAtLevel=1" in command) == is_interpreted
    assert "-XX:+UseParallelGC" in command
