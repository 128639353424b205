"""What of a pipeline, or of a source without pipelines, is on this machine, and its removal.

Names alone decide, so that a folder that is broken or gone already is no obstacle: what was broken
off is done again. The project's folder goes first, and with it the DAGs; then what streams keep,
then the tables. Each is removed under the right of its one writer.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockstep.errors import LakehouseError
from lockstep.maintain.sizes import size_of
from lockstep.model.modes import PUBLISHER
from lockstep.pipeline import names
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.project_files import PIPELINES, SOURCES
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import local_folder, writer_lock
from lockstep.supervise import lease
from lockstep.supervise.folder import driver_folder, mode_folder

PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Removal:
    """folder: of the project. workers: by address. tables: their paths below the lakehouse.

    driver: the folder of a source's driver.
    """

    folder: Path
    workers: tuple[str, ...]
    tables: tuple[str, ...]
    driver: Path | None = None


def of_pipeline(settings: Settings, name: str) -> Removal:
    """All that a pipeline of this name has."""
    modes = [*map(str, STREAM_MODES), PUBLISHER]
    logs = [names.table_path(name, mode) for mode in (Mode.BATCH, *STREAM_MODES)]
    others = (names.published_path, names.ledger_path, names.differences_path, names.cutovers_path)
    return Removal(
        settings.project / PIPELINES / name,
        tuple(names.SEPARATOR.join((name, mode)) for mode in modes),
        (*logs, *(path(name) for path in others)),
    )


def of_source(settings: Settings, name: str) -> Removal:
    """All that a source of this name has, apart from its capture and its pipelines."""
    return Removal(
        settings.project / SOURCES / name,
        (names.history_address(name),),
        (names.history_path(name), names.quarantine_path(name)),
        driver_folder(settings, name),
    )


def running(settings: Settings, removal: Removal) -> list[str]:
    """The workers that run now."""
    return [one for one in removal.workers if lease.holder(settings, one) is not None]


def there(settings: Settings, removal: Removal) -> dict[Path, int]:
    """Each folder that is there, and its size in bytes. Raises LakehouseError as `remove`."""
    return {folder: size_of(folder) for folder in _folders(settings, removal) if folder.exists()}


def remove(settings: Settings, removal: Removal) -> None:
    """Remove what is there.

    Raises StreamBusyError when a worker runs, WriterBusyError when another process writes one of
    the tables, both before anything is removed; LakehouseError for a lakehouse that is no local
    folder, where the tables are removed by other means.
    """
    with sole_right(settings, removal):
        for folder in _folders(settings, removal):
            shutil.rmtree(folder, ignore_errors=not folder.exists())


@contextmanager
def sole_right(settings: Settings, removal: Removal) -> Iterator[None]:
    """No worker runs and no other process writes a table while the block does.

    After it, the locks of the tables are removed, with the folders that are empty then. Raises as
    `remove` does.
    """
    tables = local_tables(settings, removal)
    with ExitStack() as held:
        for worker in removal.workers:
            if mode_folder(settings, worker).exists():
                held.enter_context(lease.acquire(settings, worker))
        for table in tables:
            if table.exists():
                held.enter_context(writer_lock(table, PATIENCE_SECONDS))
        yield
    for parent in {table.parent for table in tables}:
        for lock in parent.glob(".*.writer.lock"):
            lock.unlink(missing_ok=True)
        if parent.exists() and not any(parent.iterdir()):
            parent.rmdir()


def local_tables(settings: Settings, removal: Removal) -> Sequence[Path]:
    """The tables' folders. Raises LakehouseError for a lakehouse that is no local folder."""
    if local_folder(settings.lakehouse_uri) is None:
        raise LakehouseError(
            f"the lakehouse {settings.lakehouse_uri} is no local folder: remove "
            f"{', '.join(removal.tables)} there, and nothing here was changed"
        )
    return [Path(settings.table_uri(table)) for table in removal.tables]


def _folders(settings: Settings, removal: Removal) -> Iterator[Path]:
    yield removal.folder
    yield from (mode_folder(settings, worker) for worker in removal.workers)
    if removal.driver is not None:
        yield removal.driver
    yield from local_tables(settings, removal)
