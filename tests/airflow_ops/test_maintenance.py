"""Maintenance in Airflow: once a day, everything, and a failure that says what was not done."""

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException
from lockstep.airflow_names import MAINTENANCE_DAG_ID
from lockstep.airflow_ops import maintenance
from lockstep.airflow_ops.dags.maintenance import maintenance_dag
from lockstep.maintain import run as maintaining
from lockstep.maintain.outcome import Outcome, State

from tests.project import PROJECT_DIR

FILE = PROJECT_DIR / "dags" / "lockstep_maintenance.py"


@pytest.fixture
def outcomes(monkeypatch):
    """Let maintenance come to these."""

    def come_to(*found):
        def maintain(_settings, _as_of, *, is_dry_run):
            assert not is_dry_run
            yield from found

        monkeypatch.setattr(maintaining, "maintain", maintain)

    return come_to


def test_the_dag_loads_and_runs_once_a_day_without_catching_up():
    bag = DagBag(dag_folder=str(FILE))
    assert bag.import_errors == {}
    assert list(bag.dags) == [MAINTENANCE_DAG_ID]
    dag = bag.dags[MAINTENANCE_DAG_ID]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("35 3 * * *", False, 1)
    assert not dag.is_paused_upon_creation
    assert "lockstep maintain" in dag.doc_md
    assert [task.task_id for task in dag.tasks] == ["maintain"]


def test_what_was_freed_is_reported_and_logged_line_by_line(outcomes, caplog):
    caplog.set_level("INFO", "lockstep.airflow_ops.maintenance")
    outcomes(
        Outcome("parity_ledger", "/lake", State.DONE, 5_000, 2_000, "2 dead files"),
        Outcome("cutovers", "/lake", State.SKIPPED, 10, 0, "another process (pid 7) is writing"),
        Outcome("Airflow's metadata", "db", State.DONE, None, 0, "5 rows older than 30 days"),
    )
    assert maintenance.maintain() == "2.0 kB freed"
    assert [record.getMessage() for record in caplog.records] == [
        "parity_ledger: done, 5.0 kB, 2.0 kB freed; 2 dead files",
        "cutovers: skipped, 10 bytes, 0 bytes freed; another process (pid 7) is writing",
        "Airflow's metadata: done, size not known, 0 bytes freed; 5 rows older than 30 days",
    ]


def test_the_task_fails_with_the_list_of_what_could_not_be_done(outcomes):
    outcomes(
        Outcome("parity_ledger", "/lake", State.FAILED, 1, 0, "no rights"),
        Outcome("cutovers", "/lake", State.DONE, 1, 0, ""),
        Outcome("services' logs", "/logs", State.FAILED, 1, 0, "no such folder"),
    )
    with pytest.raises(AirflowException) as raised:
        maintenance.maintain()
    assert str(raised.value) == (
        "2 could not be maintained: parity_ledger: no rights; services' logs: no such folder"
    )


def test_the_task_of_the_dag_is_this_one(outcomes):
    outcomes()
    [task] = maintenance_dag().tasks
    assert task.python_callable() == "0 bytes freed"
