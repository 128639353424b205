"""Streams kept running, and each written hour compared with them, by the real Airflow.

One stack, on which each test goes on from what the ones before left: a stream is supervised, an
hour agrees with it, the next comparison does not, and at the end a person stops the streams.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer

import httpx
import pytest
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
from pizzeria.names import HOURLY_ASSET_URI, HOURLY_DAG_ID, PARITY_DAG_ID, Login, stream_dag_id
from pizzeria.shop.backdate import place_orders_at

from tests.e2e.airflow_rest import Airflow, wait_for
from tests.e2e.conftest import stack_of_its_own
from tests.webhook import address, serving, webhook_server

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.services]

OUTBOX, TEMPORAL = StreamMode.OUTBOX, StreamMode.TEMPORAL
BEFORE_THE_SCHEDULER = ["airflow-api-server", "airflow-dag-processor", "airflow-triggerer"]
SECRET_PART = "T0/B0/hush"
ORDERS_PER_HOUR = 20
OVER = ("success", "failed")


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
    assert line.task_log.startswith(f"/dags/{PARITY_DAG_ID}/runs/")
    assert webhook.received == []


def test_an_order_changed_without_being_published_fails_the_next_comparison_and_is_reported(
    settings: Settings, airflow: Airflow, webhook: ThreadingHTTPServer
) -> None:
    run_stream(settings, airflow, TEMPORAL)
    assert lease.holder(settings, TEMPORAL) == lease.holder(settings, OUTBOX)  # it joins
    hourly = airflow.runs(HOURLY_DAG_ID)[0]
    hour = hour_of(hourly)
    with connect(settings, Login.SHOP) as shop:
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
