"""A small client of Airflow's public REST interface: backfills, and the runs they make."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import httpx

from lockstep.airflow_admin.environment import ADMIN_USER
from lockstep.errors import ServiceError
from lockstep.model.window import Window
from lockstep.settings import Settings

TIMEOUT_SECONDS = 30
RUNS_MAX = 100
"""Runs of one answer: Airflow's own page size at the most."""
FINAL_STATES = {"success", "failed"}


@dataclass(frozen=True)
class DagRun:
    """A run of a DAG. started is None until it has."""

    run_id: str
    run_type: str
    state: str
    window_start: datetime
    started: datetime | None


class AirflowClient:
    """Signed in as the stack's admin for as long as the client is open."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def backfill(self, dag_id: str, first: Window, last: Window) -> int:
        """Run the DAG for every window from `first` to `last`, the finished ones again.

        Returns the backfill's id. Raises ServiceError, also while another backfill of the DAG runs.
        """
        answer = self._call(
            "POST",
            "/api/v2/backfills",
            json={
                "dag_id": dag_id,
                "from_date": first.start.isoformat(),
                "to_date": last.start.isoformat(),
                "reprocess_behavior": "completed",
            },
        )
        return answer["id"]

    def runs(self, dag_id: str, first: Window, last: Window) -> list[DagRun]:
        """The DAG's runs from window `first` to `last`, in the windows' order."""
        answer = self._call(
            "GET",
            f"/api/v2/dags/{dag_id}/dagRuns",
            params={
                "logical_date_gte": first.start.isoformat(),
                "logical_date_lte": last.start.isoformat(),
                "order_by": "logical_date",
                "limit": RUNS_MAX,
            },
        )
        return [_run(fields) for fields in answer["dag_runs"]]

    def task_seconds(self, dag_id: str, run: DagRun) -> float:
        """How long the run's tasks took, one after the other.

        Unlike the time from the run's start to its end it leaves out what a backfill's run waits
        for the runs before it, for windows are written one at a time.
        """
        tasks = self._tasks(dag_id, quote(run.run_id))
        return sum(task["duration"] or 0.0 for task in tasks)

    def triggerers(self, dag_id: str) -> set[int | None]:
        """Who runs the triggers of the DAG's deferred tasks, of all its runs; None: none yet.

        A number is that of a triggerer's job, another one each time that it is started. One that
        is gone is returned until another one takes its triggers.
        """
        deferred = (task for task in self._tasks(dag_id, "~") if task["state"] == "deferred")
        return {(task["trigger"] or {}).get("triggerer_id") for task in deferred}

    def trigger(self, dag_id: str) -> None:
        """Start a run of the DAG by hand. Raises ServiceError."""
        self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})

    def unfinished(self, dag_id: str) -> bool:
        """Whether a run of the DAG is queued or running."""
        path, states = f"/api/v2/dags/{dag_id}/dagRuns", ["queued", "running"]
        return self._call("GET", path, params={"state": states, "limit": 1})["total_entries"] > 0

    def states(self, dag_id: str, since: datetime) -> list[str]:
        """The state of each run of the DAG that was due since then, the oldest first."""
        asked = {"run_after_gte": since.isoformat(), "order_by": "run_after", "limit": RUNS_MAX}
        answer = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=asked)
        return [run["state"] for run in answer["dag_runs"]]

    def knows(self, dag_id: str) -> bool:
        """Whether Airflow has read the DAG's file yet."""
        return self._http.get(f"/api/v2/dags/{dag_id}").status_code == httpx.codes.OK

    def _tasks(self, dag_id: str, run_id: str) -> list[dict]:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        return self._call("GET", path)["task_instances"]

    def _call(self, method: str, path: str, **arguments: object) -> dict:
        response = self._http.request(method, path, **arguments)
        if response.is_error:
            raise ServiceError(
                f"Airflow refused {method} {path} ({response.status_code}): {response.text[:500]}"
            )
        return response.json()


@contextmanager
def signed_in(settings: Settings) -> Iterator[AirflowClient]:
    """A client for the block; raises ServiceError when Airflow does not answer or refuses us."""
    token = sign_in(settings)
    try:
        with httpx.Client(base_url=settings.airflow_url, timeout=TIMEOUT_SECONDS) as http:
            http.headers["Authorization"] = f"Bearer {token}"
            yield AirflowClient(http)
    except httpx.HTTPError as error:
        raise ServiceError(
            f"Airflow at {settings.airflow_url} does not answer as it should ({error}); "
            "see `lockstep status` and `lockstep logs airflow-api-server`"
        ) from error


def _run(fields: dict) -> DagRun:
    return DagRun(
        run_id=fields["dag_run_id"],
        run_type=fields["run_type"],
        state=fields["state"],
        window_start=datetime.fromisoformat(fields["data_interval_start"]),
        started=datetime.fromisoformat(fields["start_date"]) if fields["start_date"] else None,
    )


def sign_in(settings: Settings) -> str:
    """A token of Airflow's API for the user of the sign-in page. Raises ServiceError."""
    password = settings.airflow_ui_password
    body = {"username": ADMIN_USER, "password": password.get_secret_value() if password else ""}
    url = f"{settings.airflow_url}/auth/token"
    try:
        answer = httpx.post(url, json=body, timeout=TIMEOUT_SECONDS)
    except httpx.HTTPError as error:
        raise ServiceError(f"Airflow does not answer at {url}: {error}") from error
    if not answer.is_success:
        raise ServiceError(
            f"Airflow refuses the password of {ADMIN_USER} (HTTP {answer.status_code}): restart it "
            "with `lockstep down` and `lockstep up`, which give it the one of "
            f"{settings.secrets_path}"
        )
    return answer.json()["access_token"]
