"""Waits until Airflow has compared the demonstration's hours with its streams."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from lockstep.airflow_admin.client import FINAL_STATES, AirflowClient
from lockstep.errors import ServiceError
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison, Difference
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.settings import Settings

from pizzeria.names import PARITY_DAG_ID

POLL_SECONDS = 1.0
COMPARISONS_SECONDS_MAX = 1200
"""Four comparisons, each a session of its own: two minutes, under load many more."""


def await_verdicts(
    airflow: AirflowClient,
    settings: Settings,
    wanted: Sequence[tuple[Window, StreamMode]],
    since: datetime,
    on_progress: Callable[[Comparison], None],
) -> list[Comparison]:
    """The verdict on each window and mode since then, in the order wanted; reported as they come.

    The comparisons are the parity DAG's, which the hourly DAG's asset starts. Raises ServiceError
    when its runs have ended without them, or the time is up.
    """
    deadline = time.monotonic() + COMPARISONS_SECONDS_MAX
    found: dict[tuple[Window, StreamMode], Comparison] = {}
    while len(found) < len(wanted):
        # Asked before the ledger, so that a run that has ended has written its lines.
        states = airflow.states(PARITY_DAG_ID, since)
        for line in book.lines(settings, since=min(window.start for window, _ in wanted)):
            key = line.window, line.mode
            if key in wanted and key not in found and _counts(line, since):
                found[key] = line
                on_progress(line)
        missing = [key for key in wanted if key not in found]
        if missing and "failed" in states and FINAL_STATES.issuperset(states):
            raise _not_compared(missing, "have ended without it")
        if missing and time.monotonic() > deadline:
            raise _not_compared(missing, f"have not come to it in {COMPARISONS_SECONDS_MAX} s")
        if missing:
            time.sleep(POLL_SECONDS)
    return [found[key] for key in wanted]


def examples(
    settings: Settings, line: Comparison, of_each: int
) -> tuple[list[Difference], Sequence[Difference]]:
    """The first differences of each class, and all of them."""
    found = book.differences(settings, line.check_id)
    kinds = dict.fromkeys(one.kind for one in found)
    shown = [one for kind in kinds for one in [o for o in found if o.kind is kind][:of_each]]
    return shown, found


def _counts(line: Comparison, since: datetime) -> bool:
    return line.checked_at >= since and line.verdict is not Verdict.WAITING


def _not_compared(missing: Sequence[tuple[Window, StreamMode]], how: str) -> ServiceError:
    window, mode = missing[0]
    return ServiceError(
        f"{len(missing)} comparisons are missing, the first is {window} with {mode}: runs of the "
        f"DAG {PARITY_DAG_ID} {how}; its task logs in Airflow say why"
    )
