"""The task of the maintenance DAG. The work is lockstep.maintain's, imported when the task runs."""

import logging
from datetime import UTC, datetime

from airflow.sdk.exceptions import AirflowException

from lockstep.settings import Settings

log = logging.getLogger(__name__)


def maintain() -> str:
    """Maintain everything, a line of the log for each thing; returns what was freed, in words.

    Raises AirflowException with the list of what could not be done; all else is done by then.
    """
    from rich.filesize import decimal

    from lockstep.maintain.outcome import State
    from lockstep.maintain.report import as_line
    from lockstep.maintain.run import maintain as maintain_all

    outcomes = []
    for one in maintain_all(Settings.load(), datetime.now(UTC), is_dry_run=False):
        log.info("%s", as_line(one))
        outcomes.append(one)
    failed = [f"{one.what}: {one.note}" for one in outcomes if one.state is State.FAILED]
    if failed:
        raise AirflowException(f"{len(failed)} could not be maintained: {'; '.join(failed)}")
    return f"{decimal(sum(one.freed_bytes for one in outcomes))} freed"
