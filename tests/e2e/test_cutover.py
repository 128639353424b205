"""The published table in the real Airflow: kept up to date, and switched by a person's approval.

The hourly table and the stream's change log are made by hand, so that neither Spark nor Kafka is
wanted; the test itself holds the stream's lease, and beats for it.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pytest
from lockstep.airflow_admin.client import sign_in
from lockstep.ledger import book, cutovers
from lockstep.model.modes import PUBLISHER, StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import HOUR, Window
from lockstep.model.windows import Windows
from lockstep.publish.table import fed_of, open_or_create
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.heartbeat import DriverState, Heartbeat, write_heartbeat
from pizzeria import names as pizzeria

from tests.e2e.conftest import read_as_a_person, stack_of_its_own
from tests.publish.shop import PLAN, Shop, hour, published
from tests.publish.test_switch import comparison

pytestmark = [pytest.mark.e2e, pytest.mark.services]

OUTBOX = StreamMode.OUTBOX
SECONDS_MAX = 180.0
AIRFLOW = ["api-server", "scheduler", "dag-processor", "triggerer"]


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    services = [f"airflow-{component}" for component in AIRFLOW]
    with stack_of_its_own(tmp_path_factory.mktemp("cutover"), services) as settings:
        yield settings
        launcher.stop_all(settings, "the test is over")


@contextmanager
def stream_at_work(settings: Settings) -> Iterator[None]:
    """Somebody who holds the stream's lease and beats."""
    over, started = threading.Event(), datetime.now(UTC)

    def beat() -> None:
        while not over.wait(0.5):
            now = datetime.now(UTC)
            write_heartbeat(
                settings, Heartbeat(OUTBOX, os.getpid(), started, now, DriverState.RUNNING)
            )

    beating = threading.Thread(target=beat)
    with lease.acquire(settings, OUTBOX):
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()


class Airflow:
    """Its REST interface, for a person."""

    def __init__(self, settings: Settings) -> None:
        token = sign_in(settings)
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=f"{settings.airflow_url}/api/v2/dags", headers=headers, timeout=30
        )

    def trigger(self, dag_id: str, **conf: object) -> str:
        wait_until(lambda: self._http.get(f"/{dag_id}").is_success)
        asked = {"logical_date": None, "conf": conf}
        answer = self._http.post(f"/{dag_id}/dagRuns", json=asked).raise_for_status()
        return f"/{dag_id}/dagRuns/{answer.json()['dag_run_id']}"

    def state(self, run: str, task: str | None = None) -> str:
        path = f"{run}/taskInstances/{task}" if task else run
        return self._http.get(path).raise_for_status().json()["state"]

    def question(self, run: str) -> dict:
        """What is asked, as soon as the task waits for the answer."""
        wait_until(lambda: self.state(run, "approve") == "awaiting_input")
        read_as_a_person()
        return self._http.get(f"{run}/taskInstances/approve/-1/hitlDetails").json()

    def answer(self, run: str, option: str) -> None:
        path = f"{run}/taskInstances/approve/-1/hitlDetails"
        chosen = {"chosen_options": [option], "params_input": {}}
        self._http.patch(path, json=chosen).raise_for_status()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_person_lets_the_stream_feed_and_the_publisher_follows(settings: Settings) -> None:
    shop = Shop(settings)
    shop.lsn = 2**40  # beyond the cuts of the hourly DAG, which runs here as well
    shop.order(0)
    shop.run(hour(0))
    shop.order(0)
    shop.stream(OUTBOX)
    airflow = Airflow(settings)

    publishing = airflow.trigger(pizzeria.PUBLISH_DAG_ID)
    wait_until(lambda: lease.holder(settings, PUBLISHER) is not None)
    wait_until(lambda: fed_of(open_or_create(settings, PLAN.result)).reached is not None)
    assert set(published(settings)) == {1}

    refused = airflow.trigger(pizzeria.CUTOVER_DAG_ID, feed="outbox", windows=1)
    wait_until(lambda: airflow.state(refused) == "failed")
    assert airflow.state(refused, "approve") == "upstream_failed"

    end = Windows().last_due(datetime.now(UTC)).end + HOUR  # the hour may turn meanwhile
    for number in range(3):
        window = Window(end - (number + 1) * HOUR, end - number * HOUR)
        book.append(settings, comparison(window, Verdict.PASS), [])
    with stream_at_work(settings):
        rejected = airflow.trigger(pizzeria.CUTOVER_DAG_ID, feed="outbox", windows=1)
        assert "outbox is verified" in airflow.question(rejected)["body"]
        airflow.answer(rejected, "Reject")
        wait_until(lambda: airflow.state(rejected) == "success")
        assert airflow.state(rejected, "switch") == "skipped"
        assert cutovers.lines(settings) == []

        approved = airflow.trigger(pizzeria.CUTOVER_DAG_ID, feed="outbox", windows=1)
        assert airflow.question(approved)["subject"].startswith("Let outbox feed")
        airflow.answer(approved, "Approve")
        wait_until(lambda: airflow.state(approved) in ("success", "failed"))
        assert airflow.state(approved) == "success"
    [line] = cutovers.lines(settings)
    assert (line.to_feed, line.approved_by) == ("outbox", "admin in Airflow")

    shop.order(0)
    shop.stream(OUTBOX)
    wait_until(lambda: set(published(settings)) == {1, 2, 3})
    assert airflow.state(publishing) == "running"
    launcher.stop(settings, [PUBLISHER], "a test")
    wait_until(lambda: airflow.state(publishing) == "success")
