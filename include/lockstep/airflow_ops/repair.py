"""The tasks of a repair: what changed is shown to a person, and merged as that person approved it.

The work is lockstep.repair's, and is imported only when a task runs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)

from lockstep.airflow_ops.source_passwords import task_settings
from lockstep.errors import LockstepError, WindowError, WindowNotWrittenError
from lockstep.model.window import Window
from lockstep.repair.errors import RepairRefusedError

ANSWERED_WITHIN = timedelta(days=1)
"""After that an approval counts as rejected: what it showed is old."""
UNKNOWN_USER = "an unknown user"


def plan(pipeline: str, start: str, end: str) -> dict[str, Any]:
    """What the form of the approval shows, and what is approved by it; JSON values.

    Raises AirflowSkipException when no row of the window changed after the cut,
    AirflowFailException when trying again cannot help, AirflowException otherwise.
    """
    from lockstep.repair.plan import plan_repair
    from lockstep.repair.report import as_markdown, headline

    with _airflow_errors():
        window = Window.parse(start, end)
        found = plan_repair(task_settings(pipeline), window)
    if not found.changed:
        raise AirflowSkipException(headline(found))
    return {
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        "subject": f"Merge {len(found.changed):,} rows of {window} into the hourly table?",
        "body": as_markdown(found),
        "approved": found.digests,
    }


def merge(pipeline: str, planned: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    """Repair the window as planned; returns what was done, a sentence.

    response: of the approval; who gave it goes into the commit. Raises as `plan` does.
    """
    from lockstep.repair.run import repair_window

    user = response.get("responded_by_user") or {}
    with _airflow_errors():
        done = repair_window(
            task_settings(pipeline),
            Window.parse(planned["window_start"], planned["window_end"]),
            planned["approved"],
            user.get("name") or user.get("id") or UNKNOWN_USER,
        )
    if done is None:
        return "the rows were repaired before: nothing was changed"
    return f"{len(done.row_keys):,} rows merged by repair {done.cut.run_id}"


@contextmanager
def _airflow_errors() -> Iterator[None]:
    """One line for a LockstepError; no retries where only a person can help."""
    try:
        yield
    except (WindowError, WindowNotWrittenError, RepairRefusedError) as error:
        raise AirflowFailException(str(error)) from None
    except LockstepError as error:
        raise AirflowException(str(error)) from None
