"""The demonstration's streams: started in one driver, then handed to Airflow to be kept running."""

import time
from collections.abc import Sequence
from datetime import datetime

from lockstep.airflow_admin.client import AirflowClient
from lockstep.errors import ServiceError
from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.supervise import launcher
from lockstep.supervise.observation import running_workers

from pizzeria.demo import hours
from pizzeria.names import stream_dag_id

MODES = (StreamMode.OUTBOX, StreamMode.TEMPORAL)
"""One whose records hold the order, and one that looks it up; two leave two cores something."""
POLL_SECONDS = 0.5
CAPTURE_SECONDS_MAX = 120
CAUGHT_UP_SECONDS_MAX = 120
"""Seconds late is usual; minutes say that a stream stands still."""


def start(settings: Settings) -> list[StreamMode]:
    """Make MODES run, those that do not yet in one new driver; returns the ones started.

    Returns when change capture has begun and each stream works. Raises StreamError, and
    ServiceError when capture does not begin.
    """
    runs = running_workers(settings)
    started = [mode for mode in MODES if mode not in runs]
    if started:
        launcher.start(settings, started, "started by `lockstep demo`")
    deadline = time.monotonic() + CAPTURE_SECONDS_MAX
    while change_topic.began_at(settings) is None:
        if time.monotonic() > deadline:
            raise ServiceError(
                f"change capture has not begun after {CAPTURE_SECONDS_MAX} s; see `lockstep logs "
                "connect`"
            )
        time.sleep(POLL_SECONDS)
    return started


def await_orders(
    settings: Settings, mode: StreamMode, windows: list[Window], since: datetime, orders: int
) -> Sequence[float]:
    """Wait until the stream has all orders placed in the windows since then.

    Returns seconds from the database's commit to readable, by order. Raises ServiceError.
    """
    deadline = time.monotonic() + CAUGHT_UP_SECONDS_MAX
    while len(delays := hours.stream_delays(settings, mode, windows, since)) < orders:
        if time.monotonic() > deadline:
            raise ServiceError(
                f"the stream {mode} has {len(delays)} of {orders} orders after "
                f"{CAUGHT_UP_SECONDS_MAX} s; see `lockstep stream status`"
            )
        time.sleep(POLL_SECONDS)
    return list(delays.seconds)


def hand_over(airflow: AirflowClient) -> None:
    """Let Airflow keep the streams running from now on, if it does not already."""
    for mode in MODES:
        dag_id = stream_dag_id(mode)
        if not airflow.unfinished(dag_id):
            airflow.trigger(dag_id)
