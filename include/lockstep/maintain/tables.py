"""The lakehouse's tables: dead files go, small files are joined, logs are shortened.

Each table is written under the right of its one writer, and left alone while another has it: most
have a writer's lock; a stream's table has its mode's lease, and a stream that runs, or is to run,
removes dead files itself. No row is changed, and every version that a table keeps stays readable.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from rich.filesize import decimal

from lockstep.errors import LakehouseError, LockstepError, WriterBusyError
from lockstep.maintain.outcome import Outcome, State
from lockstep.maintain.sizes import in_words, size_of
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import sql_name
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sinks.dead_files import dead_files, remove_dead_files
from lockstep.sinks.delta_commits import translate_delta_errors
from lockstep.sinks.local_lakehouse import local_folder, require_writable, writer_lock
from lockstep.sinks.maintenance import tidy
from lockstep.supervise import lease
from lockstep.supervise.desired import is_desired
from lockstep.supervise.errors import StreamBusyError

PATIENCE_SECONDS = 10.0
"""For another writer's commit; an hourly run holds its table longer, and comes again in an hour."""
MILLION = 1_000_000


def maintain_tables(settings: Settings, *, is_dry_run: bool) -> Iterator[Outcome]:
    """Maintain each table that there is, of every pipeline of the project and of their sources.

    A table that fails is an outcome, never an exception.
    """
    if local_folder(settings.lakehouse_uri) is None:
        note = "no writer's lock on an object store: vacuum its tables while none is written"
        yield Outcome("tables", settings.lakehouse_uri, State.SKIPPED, note=note)
        return
    for table, of in _tables(settings).items():
        folder = Path(of.table_uri(table))
        if DeltaTable.is_deltatable(str(folder)):
            yield _maintain(of, table, folder, is_dry_run)


def _tables(settings: Settings) -> dict[str, Settings]:
    """The paths of all tables, each with the settings of a pipeline that has it.

    One whose manifest names no source has none that could be known.
    """
    project, found = read_project(settings.project), {}
    for name in sorted({*project.pipelines, *project.pipeline_problems}):
        with suppress(PipelineError):
            of = settings.of(name)
            found = dict.fromkeys(of.names.tables, of) | found
    return found


def _maintain(settings: Settings, table: str, folder: Path, is_dry_run: bool) -> Outcome:
    work = _of_a_stream if table in _leases(settings) else _of_a_writer
    before = size_of(folder)
    try:
        state, freed, note = work(settings, table, folder, is_dry_run)
    except (WriterBusyError, StreamBusyError) as error:
        state, freed, note = State.SKIPPED, 0, str(error)
    except (LockstepError, DeltaError, OSError) as error:
        state, freed, note = State.FAILED, 0, str(error)
    return Outcome(sql_name(table), str(folder), state, before, freed, note)


_Done = tuple[State, int, str]
"""State, bytes freed, note."""


def _of_a_writer(settings: Settings, table: str, folder: Path, is_dry_run: bool) -> _Done:
    if is_dry_run:
        dead = dead_files(folder)
        return State.DONE, dead.bytes, in_words(dead)
    with writer_lock(folder, PATIENCE_SECONDS):
        # Dead files first: it makes room, and what the compaction replaces is kept for a while.
        dead = remove_dead_files(folder)
        # An hour is one file or a few, and its writer shortens the log.
        if table != settings.names.hourly_table:
            _join_small_files(settings, folder)
    return State.DONE, dead.bytes, in_words(dead)


def _join_small_files(settings: Settings, folder: Path) -> None:
    try:
        require_writable(settings)
    except LakehouseError:
        return  # no room for it now; the next day may have some
    with translate_delta_errors(str(folder)):
        tidy(DeltaTable(folder), vacuum_hours=None)


def _of_a_stream(settings: Settings, table: str, folder: Path, is_dry_run: bool) -> _Done:
    dead = dead_files(folder)
    growth, leases = _growth(folder), _leases(settings)[table]
    if owner := _owner(settings, leases):
        return State.OWNER, 0, f"{growth}; {owner} removes {in_words(dead)} itself"
    if dead.count and not is_dry_run:
        with ExitStack() as held:
            for mode in leases:
                held.enter_context(lease.acquire(settings, mode))
            dead = remove_dead_files(folder)
    return State.KEPT, dead.bytes, f"{growth}; {in_words(dead)}"


def _leases(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The tables that a stream writes, and the leases under which it does."""
    logs = {settings.names.change_log(mode): (str(mode),) for mode in StreamMode}
    return {**logs, settings.names.history: (HISTORY,)}


def _owner(settings: Settings, modes: tuple[str, ...]) -> str | None:
    """Who is to do the work: a driver that runs, or one that its supervision is about to start."""
    for mode in modes:
        if (pid := lease.holder(settings, mode)) is not None:
            return f"{mode} (pid {pid})"
        if mode != HISTORY and is_desired(settings, mode):
            return f"{mode}, which is to run,"
    return None


def _growth(folder: Path) -> str:
    """Rows of the newest version, and what a million of them takes in its files."""
    with translate_delta_errors(str(folder)):
        table = DeltaTable(folder)
        rows = table.count()
        live = sum(table.get_add_actions(flatten=True).column("size_bytes").to_pylist())
    each = f", {decimal(round(live / rows * MILLION))} a million" if rows else ""
    return f"{rows:,} rows{each}"
