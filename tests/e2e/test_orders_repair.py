"""A repair as a person meets it in Airflow: asked for, shown, rejected or approved, checked."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from lockstep.airflow_admin.client import sign_in
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import written_by
from pizzeria.names import ORDERS_ENRICHED_BATCH, REPAIR_DAG_ID, Login
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import read_pizza_place

from tests.e2e.conftest import read_as_a_person
from tests.hourly_table import SMALL_PIZZERIA, empty_pizzeria
from tests.repair.conftest import HOUR, run_hour, whole_rows

pytestmark = [pytest.mark.e2e, pytest.mark.services]

SECONDS_MAX = 600
DAG = f"/api/v2/dags/{REPAIR_DAG_ID}"


class RepairDag:
    """The DAG behind Airflow's public interface, as its form uses it."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._run = ""

    def trigger(self) -> None:
        bounds = {"window_start": HOUR.start.isoformat(), "window_end": HOUR.end.isoformat()}
        run = self._call("POST", f"{DAG}/dagRuns", json={"conf": bounds, "logical_date": None})
        self._run = f"{DAG}/dagRuns/{run['dag_run_id']}"

    def question(self) -> dict[str, Any]:
        """What a person is asked; waits until somebody is."""
        self._until(lambda: self.states().get("approve") == "awaiting_input")
        read_as_a_person()
        return self._call("GET", f"{self._run}/taskInstances/approve/-1/hitlDetails")

    def answer(self, option: str) -> None:
        path = f"{self._run}/taskInstances/approve/-1/hitlDetails"
        self._call("PATCH", path, json={"chosen_options": [option]})

    def states(self) -> dict[str, str]:
        found = self._call("GET", f"{self._run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def end(self) -> dict[str, str]:
        """The tasks' states when the run is over."""
        over = ("success", "failed")
        self._until(lambda: self._call("GET", self._run)["state"] in over)
        return self.states()

    def wait_for_the_file(self) -> None:
        self._until(lambda: self._http.get(DAG).status_code == httpx.codes.OK)

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline, self.states() if self._run else "no DAG"
            time.sleep(1)

    def _call(self, method: str, path: str, **arguments: object) -> dict:
        response = self._http.request(method, path, **arguments)
        assert not response.is_error, response.text
        return response.json()


@pytest.fixture
def dag(airflow_stack: Settings) -> Iterator[RepairDag]:
    token = sign_in(airflow_stack)
    with httpx.Client(base_url=airflow_stack.airflow_url, timeout=60) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        dag = RepairDag(http)
        dag.wait_for_the_file()
        yield dag


def test_a_person_rejects_then_approves_and_only_then_the_orders_are_merged(
    airflow_stack: Settings, dag: RepairDag
) -> None:
    settings = airflow_stack
    empty_pizzeria(settings)
    load(settings, read_pizza_place(SMALL_PIZZERIA))
    run_hour(settings)
    cancelled, *_ = sorted(before := whole_rows(settings))
    with psycopg.connect(**settings.connection(Login.SHOP)) as shop:
        shop.execute("DELETE FROM orders WHERE id = %s", (cancelled,))
        shop.execute("UPDATE pizzas SET price = price + 1")

    dag.trigger()
    asked = dag.question()
    assert f"| {cancelled} | cancelled |" in asked["body"]
    assert f"also change {len(before) - 1} of its {len(before) - 1} other rows" in asked["body"]
    dag.answer("Reject")
    assert dag.end() == {
        "plan": "success",
        "approve": "success",
        "merge": "skipped",
        "check_quality": "skipped",
    }
    assert whole_rows(settings) == before

    dag.trigger()
    dag.question()
    dag.answer("Approve")
    assert set(dag.end().values()) == {"success"}
    assert whole_rows(settings) == {i: r for i, r in before.items() if i != cancelled}
    (repair,) = written_by(open_table(settings.table_uri(ORDERS_ENRICHED_BATCH)), HOUR).repairs
    assert (repair.row_keys, repair.approved_by) == ((cancelled,), "admin")

    dag.trigger()
    assert dag.end()["plan"] == "skipped"
