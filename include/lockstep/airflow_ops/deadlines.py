"""By when a window must be there, and what happens when it is not.

Loaded by name: the reference by the scheduler (through the plugin), the callback by the triggerer.
"""

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import AsyncCallback, DeadlineAlert
from airflow.sdk.definitions.deadline import BaseDeadlineReference

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

# All four attempts of a run of a minute or two fit into it, with at most seven minutes of pauses;
# the next window does not yet wait behind this one.
DELIVERED_WITHIN = timedelta(minutes=30)

log = logging.getLogger(__name__)


class ScheduledRunDue(BaseDeadlineReference):
    """When a scheduled run was due; nothing for other runs.

    Airflow's own references do not fit: "queued at" starts late when the scheduler was down, and
    the logical date makes every backfilled hour of last year late before it starts.
    """

    required_kwargs = frozenset({"dag_id", "run_id"})

    def _evaluate_with(self, *, session: "Session", dag_id: str, run_id: str) -> datetime | None:
        from airflow.models import DagRun
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        return session.scalar(
            select(DagRun.run_after).where(
                DagRun.dag_id == dag_id,
                DagRun.run_id == run_id,
                DagRun.run_type == DagRunType.SCHEDULED,
            )
        )


async def report_late_window(context: dict[str, Any]) -> str:
    """Say in the triggerer's log which window is late; returns what was said."""
    run, deadline = context["dag_run"], context["deadline"]["deadline_time"]
    message = (
        f"LATE: the window [{run['data_interval_start']}, {run['data_interval_end']}) of "
        f"{run['dag_id']} was to be delivered by {deadline} and is not: run {run['dag_run_id']} "
        f"is {run['state']}. Its tasks' logs say why; clear the failed task to try again."
    )
    log.critical(message)
    return message


def window_deadline(every: timedelta) -> DeadlineAlert:
    """A scheduled window is late 30 minutes after it was due, or when the next one is."""
    return DeadlineAlert(
        reference=ScheduledRunDue(),
        interval=min(DELIVERED_WITHIN, every),
        callback=AsyncCallback(report_late_window),
        name="window delivered",
    )
