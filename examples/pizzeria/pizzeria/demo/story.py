"""The demonstration's steps: streams, live orders, what makes batch and stream differ, the verdict.

Whatever is shown was measured on the runs just made. Printing is the caller's, through
`on_progress`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.airflow_admin.client import AirflowClient, signed_in
from lockstep.ledger.entries import Comparison
from lockstep.model.window import Window
from lockstep.model.windows import Windows
from lockstep.settings import Settings

from pizzeria.demo import comparisons, hourly_runs, hours, live_orders, streams
from pizzeria.demo.delay_chart import HOURLY_RUN, headline, save_delay_chart
from pizzeria.demo.hourly_runs import FinishedRun
from pizzeria.names import HOURLY_DAG_ID, PARITY_DAG_ID, stream_dag_id
from pizzeria.shop.incidents import OpenOrder

if TYPE_CHECKING:
    import pandas as pd

HOURS = 2
ORDERS_PER_HOUR = 300
SEED = 1
PRICE_RISE = Decimal("0.50")
BEFORE_THE_END = timedelta(minutes=2)
"""When the late order was taken: shortly before its window ended."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What Airflow made of the hours: each one's run, and the verdict on it and each mode."""

    runs: Mapping[datetime, FinishedRun]
    verdicts: Sequence[Comparison]


@dataclass(frozen=True)
class Waiting:
    """How long orders waited: columns by, hour, order_time, seconds; the same as a picture."""

    delays: "pd.DataFrame"
    headline: str
    chart: Path


def past_windows(as_of: datetime, hours: int = HOURS) -> list[Window]:
    """The last `hours` windows whose hourly run is due by `as_of`, oldest first."""
    of_hours = Windows()
    last = of_hours.last_due(as_of)
    return [of_hours.at(last.start - n * of_hours.every) for n in reversed(range(hours))]


def place_orders(
    settings: Settings, windows: list[Window], on_progress: Callable[[int], None]
) -> int:
    """Put live orders into the windows while the streams run; returns how many."""
    times = live_orders.order_times(windows, ORDERS_PER_HOUR, SEED)
    live_orders.place_live(settings, times, SEED, on_progress)
    return len(times)


def through_airflow(
    settings: Settings,
    windows: list[Window],
    since: datetime,
    late: OpenOrder,
    on_progress: OnProgress,
) -> Outcome:
    """Hand the streams to Airflow, run the hours there, and wait for their comparisons.

    `late` is committed as soon as its hour, the last, has been read. Raises ServiceError.
    """

    def commit_when_read() -> None:
        if not late.is_committed and hourly_runs.has_read(settings, windows[-1], since):
            late.commit()
            on_progress(
                f"{windows[-1].start:%H:%M} has been read: order {late.order_id} commits now"
            )

    with signed_in(settings) as airflow:
        _await_dags(airflow)
        streams.hand_over(airflow)
        runs = hourly_runs.run_hours(airflow, windows, since, on_progress, commit_when_read)
        wanted = [(window, mode) for window in windows for mode in streams.MODES]
        verdicts = comparisons.await_verdicts(
            airflow,
            settings,
            wanted,
            since,
            lambda line: on_progress(
                f"{line.window.start:%H:%M} compared with {line.mode}: {line.verdict}"
            ),
        )
    return Outcome(runs, verdicts)


def waiting(
    settings: Settings,
    windows: list[Window],
    runs: Mapping[datetime, FinishedRun],
    placed_since: datetime,
) -> Waiting:
    """Work out how long each order waited, and draw it below HOME/demo."""
    import pandas as pd

    seconds = {start: run.seconds for start, run in runs.items()}
    found = {HOURLY_RUN: hours.hourly_delays(settings, windows, seconds)} | {
        str(mode): hours.stream_delays(settings, mode, windows, placed_since)
        for mode in streams.MODES
    }
    delays = pd.concat([delay.assign(by=name) for name, delay in found.items()])
    chart = settings.home / "demo" / "delay.png"
    save_delay_chart(delays, chart)
    return Waiting(delays, headline(delays), chart)


def _await_dags(airflow: AirflowClient) -> None:
    for dag_id in (HOURLY_DAG_ID, PARITY_DAG_ID, *map(stream_dag_id, streams.MODES)):
        hourly_runs.await_dag(airflow, dag_id)
