"""The whole of maintenance: every thing that grows, one after the other.

It may be ended anywhere and run again: each part is whole or not done, and none waits for long.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from lockstep.errors import LockstepError
from lockstep.host.data_folders import topic_folder
from lockstep.maintain.airflow_files import clean_metadata, remove_task_logs
from lockstep.maintain.outcome import Outcome, State
from lockstep.maintain.service_logs import cut_service_logs
from lockstep.maintain.sizes import size_of
from lockstep.maintain.tables import maintain_tables
from lockstep.settings import Settings


def maintain(settings: Settings, as_of: datetime, *, is_dry_run: bool) -> Iterator[Outcome]:
    """Bound what grows, and give an outcome for each thing as soon as it is done.

    A dry run changes nothing and gives the same figures. What fails or is busy is an outcome, and
    the others are still maintained.
    """
    yield from maintain_tables(settings, is_dry_run=is_dry_run)
    yield from _change_topic(settings)
    parts: dict[str, Callable[[], Outcome]] = {
        "services' logs": lambda: cut_service_logs(settings, is_dry_run=is_dry_run),
        "Airflow's task logs": lambda: remove_task_logs(settings, as_of, is_dry_run=is_dry_run),
        "Airflow's metadata": lambda: clean_metadata(settings, as_of, is_dry_run=is_dry_run),
    }
    for what, part in parts.items():
        yield _outcome_of(what, part)


def _outcome_of(what: str, part: Callable[[], Outcome]) -> Outcome:
    try:
        return part()
    except (LockstepError, OSError) as error:
        return Outcome(what, "", State.FAILED, note=str(error))


def _change_topic(settings: Settings) -> Iterator[Outcome]:
    """Of the embedded Kafka; of another one the size is not known here."""
    folder = topic_folder(settings, settings.names.change_topic)
    if folder.is_dir():
        note = "every change since the snapshot, from which tables are rebuilt"
        yield Outcome("change topic", str(folder), State.KEPT, size_of(folder), 0, note)
