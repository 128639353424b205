"""Streams kept running, and each written hour compared with them, by the real Airflow.

One stack, on which each test goes on from what the ones before left: a stream is supervised, an
hour agrees with it, the next comparison does not, and at the end a person stops the streams.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer

import httpx
import pytest
from lockstep.accounts import Role
from lockstep.airflow_admin.client import sign_in
from lockstep.airflow_names import NOTIFY_CONNECTION
from lockstep.devstack import control
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import HOUR, Window
from lockstep.model.windows import Windows
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.postgres import connect
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import DesiredState, read_desired
from lockstep.supervise.health import Health
from lockstep.supervise.observation import observe
from lockstep_tools.soak.drivers import drivers, kill
from pizzeria.names import HOURLY_ASSET_URI, HOURLY_DAG_ID, PARITY_DAG_ID, stream_dag_id
from pizzeria.shop.backdate import place_orders_at

from tests.e2e.conftest import stack_of_its_own
from tests.webhook import address, serving, webhook_server

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.services]

OUTBOX, TEMPORAL = StreamMode.OUTBOX, StreamMode.TEMPORAL
BEFORE_THE_SCHEDULER = ["airflow-api-server", "airflow-dag-processor", "airflow-triggerer"]
SECRET_PART = "T0/B0/hush"
ORDERS_PER_HOUR = 20
SECONDS_MAX = 600.0
"""For any step. The longest, two comparisons, takes a minute alone, and ten times that under load.
"""
OVER = ("success", "failed")


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {SECONDS_MAX:.0f} s"
        time.sleep(0.5)


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


@pytest.fixture(scope="module")
def webhook() -> Iterator[ThreadingHTTPServer]:
    yield from serving(webhook_server())


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The whole stack; the hourly DAG waits until it is unpaused."""
    home = tmp_path_factory.mktemp("parity-in-airflow")
    with stack_of_its_own(home, ["connect", *BEFORE_THE_SCHEDULER]) as settings:
        airflow = Airflow(settings)
        airflow.wait_for_dag(HOURLY_DAG_ID)
        airflow.pause(HOURLY_DAG_ID, True)
        control.up(settings, ["airflow"])
        yield settings
        launcher.stop_all(settings, "the tests are over")


@pytest.fixture(scope="module")
def airflow(settings: Settings, webhook: ThreadingHTTPServer) -> Airflow:
    """Signed in; a connection names the webhook that failures are sent to."""
    airflow = Airflow(settings)
    airflow.call(
        "POST",
        "/connections",
        connection_id=NOTIFY_CONNECTION,
        conn_type="http",
        host=f"{address(webhook)}/services",
        password=SECRET_PART,
    )
    return airflow


def run_stream(settings: Settings, airflow: Airflow, mode: StreamMode) -> None:
    """As a person starts it: by its DAG."""
    airflow.wait_for_dag(stream_dag_id(mode))
    airflow.trigger(stream_dag_id(mode))
    wait_for(lambda: observe(settings, mode).finding.health is Health.OK, f"{mode} at work")
    airflow.wait_for_the_scheduler()


def finished(find: Callable[[], list[dict]], number: int, what: str) -> dict:
    """Of the runs that are found the one of this number, counted from 1, once it is over."""
    wait_for(
        lambda: any(run["state"] in OVER for run in find()[number - 1 : number]),
        f"the end of {what}",
    )
    return find()[number - 1]


def hour_of(run: dict) -> Window:
    return Window.parse(run["data_interval_start"], run["data_interval_end"])


def lines_of(settings: Settings, hour: Window) -> list[Comparison]:
    """The ledger's, the oldest first."""
    return [line for line in book.lines(settings) if line.window == hour]


def label(mode: StreamMode, window: Window) -> str:
    return f"{mode}, {window.start.isoformat()}"


def test_a_stream_whose_driver_is_killed_is_started_again(
    settings: Settings, airflow: Airflow
) -> None:
    run_stream(settings, airflow, OUTBOX)
    wait_for(lambda: change_topic.began_at(settings), "change capture")
    [(driver, _)] = drivers(settings)
    kill(driver, "both")
    wait_for(lambda: lease.holder(settings, OUTBOX) not in (None, driver.pid), "another driver")
    wait_for(lambda: observe(settings, OUTBOX).finding.health is Health.OK, "the stream's return")
    assert [one.pid for one, _ in drivers(settings)] == [lease.holder(settings, OUTBOX)]
    assert read_desired(settings, OUTBOX).restarts == 1
    [run] = airflow.runs(stream_dag_id(OUTBOX))
    assert run["state"] == "running"


def test_an_hour_that_is_written_is_compared_with_the_stream_that_runs(
    settings: Settings, airflow: Airflow, webhook: ThreadingHTTPServer
) -> None:
    last = Windows().last_due(datetime.now(UTC)).start
    step = HOUR / ORDERS_PER_HOUR
    # The hour that is due now, and the next one, which may be due when the scheduler looks.
    place_orders_at(settings, [last + n * step for n in range(2 * ORDERS_PER_HOUR)], seed=1)
    airflow.pause(HOURLY_DAG_ID, False)
    hourly = finished(lambda: airflow.runs(HOURLY_DAG_ID), 1, "the hourly run")
    assert (hourly["run_type"], hourly["state"]) == ("scheduled", "success")

    compared = finished(lambda: airflow.comparing_runs(hourly), 1, "the comparison")
    assert (compared["run_type"], compared["state"]) == ("asset_triggered", "success")
    [event] = airflow.causes(compared, hourly)
    assert event["uri"] == HOURLY_ASSET_URI
    hour = hour_of(hourly)
    assert Window.parse(event["extra"]["window_start"], event["extra"]["window_end"]) == hour
    assert airflow.comparisons(compared, hour) == {label(OUTBOX, hour): "success"}
    [line] = lines_of(settings, hour)
    assert (line.mode, line.verdict) == (OUTBOX, Verdict.PASS)
    assert (line.orders_compared, line.counts) == (ORDERS_PER_HOUR, {})
    assert webhook.received == []


def test_an_order_changed_without_being_published_fails_the_next_comparison_and_is_reported(
    settings: Settings, airflow: Airflow, webhook: ThreadingHTTPServer
) -> None:
    run_stream(settings, airflow, TEMPORAL)
    hourly = airflow.runs(HOURLY_DAG_ID)[0]
    hour = hour_of(hourly)
    with connect(settings, Role.SHOP) as shop:
        [(order_id,)] = shop.execute(
            "UPDATE orders SET pizzas = pizzas || pizzas WHERE id = ("
            "SELECT min(id) FROM orders WHERE order_time >= %s AND order_time < %s) RETURNING id",
            (hour.start, hour.end),
        ).fetchall()
    airflow.clear(hourly)
    finished(lambda: airflow.runs(HOURLY_DAG_ID), 1, "the hourly run, done again")
    compared = finished(lambda: airflow.comparing_runs(hourly), 2, "the second comparison")
    assert compared["state"] == "failed"
    instances = {label(OUTBOX, hour): "failed", label(TEMPORAL, hour): "success"}
    assert airflow.comparisons(compared, hour) == instances
    lines = {line.mode: line for line in lines_of(settings, hour)[1:]}
    assert lines.keys() == {OUTBOX, TEMPORAL}
    assert lines[TEMPORAL].verdict is Verdict.PASS
    assert lines[OUTBOX].verdict is Verdict.FAIL
    assert lines[OUTBOX].counts == {DifferenceClass.VALUE_MISMATCH: 1}
    [difference] = book.differences(settings, lines[OUTBOX].check_id)
    assert difference.key == f"[{order_id}]"

    wait_for(lambda: webhook.received, "the report")
    [(path, body)] = webhook.received
    assert path == f"/services/{SECRET_PART}"
    what, why, where = body["text"].splitlines()
    assert what == "Batch and stream of orders_enriched differ, or could not be compared"
    assert why == f"{hour}, {OUTBOX}: {Verdict.FAIL}: 1 {DifferenceClass.VALUE_MISMATCH}"
    assert where.startswith(f"{settings.airflow_url}/dags/{PARITY_DAG_ID}/runs/")
    assert f"/{compared['dag_run_id']}/" in httpx.URL(where).path


def test_a_stream_that_a_person_stops_stays_stopped_and_is_no_failure_to_report(
    settings: Settings, airflow: Airflow, webhook: ThreadingHTTPServer
) -> None:
    [by_dag] = airflow.runs(stream_dag_id(OUTBOX))
    airflow.mark_as_failed(by_dag, "supervise")
    launcher.stop(settings, [TEMPORAL], "stopped by `lockstep stream stop`")
    for mode, state in ((OUTBOX, "failed"), (TEMPORAL, "success")):
        finished(lambda mode=mode: airflow.runs(stream_dag_id(mode)), 1, f"supervision of {mode}")
        [run] = airflow.runs(stream_dag_id(mode))  # and there is no other, to start it again
        assert run["state"] == state
    for mode in (OUTBOX, TEMPORAL):
        wait_for(lambda mode=mode: lease.holder(settings, mode) is None, f"the end of {mode}")
        assert read_desired(settings, mode).state is DesiredState.STOPPED
    wait_for(lambda: list(drivers(settings)) == [], "the end of the drivers")
    assert len(webhook.received) == 1
