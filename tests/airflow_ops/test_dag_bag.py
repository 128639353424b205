"""All DAGs as Airflow's scheduler gets them: found in their folder, serialized, and read back.

In a process of its own, with the project's plugins: what other tests import or set is not there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep.airflow_names import MAINTENANCE_DAG_ID
from lockstep.pipeline.pipeline_names import names_of
from lockstep.pipeline.project import read_project
from pizzeria import names as pizzeria

from tests.project import PROJECT_DIR

LOAD = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

bag = DagBag(sys.argv[1])
dags = {}
for dag_id, parsed in bag.dags.items():
    dag = DagSerialization.from_dict(DagSerialization.to_dict(parsed))
    condition = dag.timetable.asset_condition
    dags[dag_id] = {
        "timetable": f"{type(dag.timetable).__module__}.{type(dag.timetable).__name__}",
        "waits_for": [key.uri for key, _ in condition.iter_assets()] if condition else [],
        "announces": {t.task_id: [a.uri for a in t.outlets] for t in dag.tasks if t.outlets},
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "is_paused": dag.is_paused_upon_creation,
        "max_active_runs": dag.max_active_runs,
        "max_active_tis": {t.task_id: t.max_active_tis_per_dag for t in dag.tasks},
        "params": sorted(dag.params),
        "reports_failure": [t.task_id for t in dag.tasks if t.has_on_failure_callback],
        "deadlines": [d["reference"]["reference_type"] for d in dag.deadline or []],
    }
print(json.dumps({"errors": bag.import_errors, "dags": dags}))
"""

BY_HAND = "airflow.timetables.simple.NullTimetable"
BOUNDS = ["window_end", "window_start"]


def expected(
    pipeline: str, kind: str, tasks: dict[str, int | None], **differing: object
) -> dict[str, object]:
    """A DAG that is run by hand, one run at a time, but for what differs."""
    return {
        "timetable": BY_HAND,
        "waits_for": [],
        "announces": {},
        "tags": sorted(["lockstep", pipeline, kind]),
        "catchup": False,
        "is_paused": False,
        "max_active_runs": 1,
        "max_active_tis": tasks,
        "params": [],
        "reports_failure": [],
        "deadlines": [],
    } | differing


def of_pipeline(name: str, *, is_paused: bool) -> dict[str, dict[str, object]]:
    """The DAGs of one pipeline."""
    names = names_of(PROJECT_DIR, name)

    def of(kind: str, tasks: dict[str, int | None], **differing: object) -> dict[str, object]:
        return expected(name, kind, tasks, **differing)

    def supervised(kind: str) -> dict[str, object]:
        """A DAG that keeps a process running."""
        tasks = {"supervise": None}
        return of(kind, tasks, params=["restarts_max"], reports_failure=["supervise"])

    return {
        names.hourly_dag_id: of(
            "hourly",
            {"enrich": 1, "check_quality": 1},
            timetable="lockstep.airflow_ops.timetables.WindowTimetable",
            announces={"check_quality": [names.hourly_asset_uri]},
            is_paused=is_paused,
            max_active_runs=4,
            params=["read"],
            deadlines=["ScheduledRunDue"],
        ),
        names.parity_dag_id: of(
            "parity",
            {"comparisons": None, "compare": 1},
            timetable="airflow.timetables.simple.AssetTriggeredTimetable",
            waits_for=[names.hourly_asset_uri],
            max_active_runs=2,
            params=BOUNDS,
            reports_failure=["compare"],
        ),
        names.repair_dag_id: of(
            "parity",
            {"plan": None, "approve": None, "merge": 1, "check_quality": 1},
            announces={"check_quality": [names.hourly_asset_uri]},
            max_active_runs=64,
            params=BOUNDS,
        ),
        names.cutover_dag_id: of(
            "publish",
            {"check": None, "approve": None, "switch": None},
            params=["feed", "windows"],
            reports_failure=["switch"],
        ),
        names.publish_dag_id: supervised("publish"),
        **{names.stream_dag_id(mode): supervised("stream") for mode in names.modes},
    }


OTHERS = [name for name in read_project(PROJECT_DIR).pipelines if name != pizzeria.MANIFEST]
DAGS = {
    **of_pipeline(pizzeria.MANIFEST, is_paused=False),
    **{k: v for name in OTHERS for k, v in of_pipeline(name, is_paused=True).items()},
    MAINTENANCE_DAG_ID: expected(
        pizzeria.MANIFEST,
        "maintenance",
        {"maintain": None},
        tags=["lockstep", "maintenance"],
        timetable="airflow.timetables.trigger.CronTriggerTimetable",
    ),
}


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What a fresh process finds in the folder of DAGs: import errors by file, DAGs by id."""
    home: Path = tmp_path_factory.mktemp("airflow")
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "LOCKSTEP_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_DIR / "plugins"),
    }
    process = subprocess.run(
        [sys.executable, "-c", LOAD, str(PROJECT_DIR / "dags")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout.splitlines()[-1])


def test_every_file_of_dags_loads_and_there_are_no_other_dags(bag: dict[str, dict]) -> None:
    assert bag["errors"] == {}
    assert set(bag["dags"]) == set(DAGS)


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_scheduler_gets_the_dag_as_promised(bag: dict[str, dict], dag_id: str) -> None:
    assert bag["dags"][dag_id] == DAGS[dag_id]
