"""What tests ask of a real Airflow, by its public REST interface."""

from collections.abc import Callable

import httpx
from lockstep.airflow_admin.client import sign_in
from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.waiting import wait_until
from pizzeria.names import PARITY_DAG_ID

SECONDS_MAX = 600.0
"""For any step. The longest, two comparisons, takes a minute alone, and ten times that under load.
"""


def wait_for(condition: Callable[[], object], what: str) -> None:
    assert wait_until(condition, SECONDS_MAX, 0.5), f"{what} did not come in {SECONDS_MAX:.0f} s"


class Airflow:
    """Its public REST interface, for its admin."""

    def __init__(self, settings: Settings) -> None:
        self._http = httpx.Client(
            base_url=f"{settings.airflow_url}/api/v2",
            headers={"Authorization": f"Bearer {sign_in(settings)}"},
            timeout=60,
        )

    def call(self, method: str, path: str, **body: object) -> dict:
        answer = self._http.request(method, path, json=body or None)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()

    def wait_for_dag(self, dag_id: str) -> None:
        wait_for(lambda: self._http.get(f"/dags/{dag_id}").is_success, f"the DAG {dag_id}")

    def wait_for_the_scheduler(self) -> None:
        """Wait until it has beaten twice, so that it knows of each worker that has ended by now.

        Airflow 3.3 fails a deferred task whose trigger fires before that.
        """
        for _ in range(2):
            before = self._scheduler_beat()
            wait_for(lambda before=before: self._scheduler_beat() != before, "a scheduler's beat")

    def _scheduler_beat(self) -> str:
        return self.call("GET", "/monitor/health")["scheduler"]["latest_scheduler_heartbeat"]

    def pause(self, dag_id: str, is_paused: bool) -> None:
        self.call("PATCH", f"/dags/{dag_id}", is_paused=is_paused)

    def trigger(self, dag_id: str) -> None:
        self.call("POST", f"/dags/{dag_id}/dagRuns", logical_date=None)

    def clear(self, run: dict) -> None:
        """Have a finished run done again."""
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}"
        self.call("POST", f"{path}/clear", dry_run=False)

    def runs(self, dag_id: str) -> list[dict]:
        """All runs of the DAG, the oldest first."""
        return self.call("GET", f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]

    def comparing_runs(self, hourly: dict) -> list[dict]:
        """The runs that an hourly run started by its asset event, the oldest first."""
        return [run for run in self.runs(PARITY_DAG_ID) if self.causes(run, hourly)]

    def causes(self, run: dict, hourly: dict) -> list[dict]:
        """Of the asset events that started the run those of the hourly run."""
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/upstreamAssetEvents"
        events = self.call("GET", path)["asset_events"]
        source = (hourly["dag_id"], hourly["dag_run_id"])
        return [one for one in events if (one["source_dag_id"], one["source_run_id"]) == source]

    def comparisons(self, run: dict, hour: Window) -> dict[str, str]:
        """The state of each of the run's comparisons of the hour, by its label on the page."""
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/compare"
        found = self.call("GET", f"{path}/listMapped")["task_instances"]
        states = {one["rendered_map_index"]: one["state"] for one in found}
        return {name: state for name, state in states.items() if hour.start.isoformat() in name}

    def mark_as_failed(self, run: dict, task_id: str) -> None:
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}"
        self.call("PATCH", path, new_state="failed")
