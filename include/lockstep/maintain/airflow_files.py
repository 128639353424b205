"""What Airflow leaves behind: its metadata, and the logs of tasks and DAG files.

Old is what is older than LOCKSTEP_AIRFLOW_KEPT_DAYS. The logs of a run go together, once none of
them is written any more, so that a run that lasts for months keeps its beginning.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from lockstep.airflow_admin import metadata as airflow_metadata
from lockstep.airflow_admin.environment import airflow_home
from lockstep.maintain.outcome import Outcome, State
from lockstep.maintain.sizes import size_of
from lockstep.settings import Settings


def remove_task_logs(settings: Settings, as_of: datetime, *, is_dry_run: bool) -> Outcome:
    """Remove the logs of runs, and of DAG files, that were last written so many days ago."""
    root = airflow_home(settings) / "logs"
    before = size_of(root)
    old = [one for one in _kept_together(root) if _last_written(one) < _limit(settings, as_of)]
    freed = sum(_size(one) for one in old)
    if not is_dry_run:
        for one in old:
            _remove(one)
        _remove_empty_folders(root, _limit(settings, as_of))
    note = f"{len(old):,} runs and files older than {settings.airflow_kept_days} days"
    return Outcome("Airflow's task logs", str(root), State.DONE, before, freed, note)


def clean_metadata(settings: Settings, as_of: datetime, *, is_dry_run: bool) -> Outcome:
    """Delete what the metadata says of runs that began so many days ago. Raises ServiceError."""
    what, where = "Airflow's metadata", f"{settings.postgres_host}:{settings.postgres_port}"
    if reason := airflow_metadata.unavailable(settings):
        return Outcome(what, where, State.SKIPPED, note=reason)
    before = as_of - timedelta(days=settings.airflow_kept_days)
    rows = airflow_metadata.clean_metadata(settings, before, is_dry_run=is_dry_run)
    note = f"{rows:,} rows older than {settings.airflow_kept_days} days"
    return Outcome(what, where, State.DONE, note=note)


def _limit(settings: Settings, as_of: datetime) -> float:
    return (as_of - timedelta(days=settings.airflow_kept_days)).timestamp()


def _kept_together(root: Path) -> Iterator[Path]:
    """The folder of each run, and each file that is of no run."""
    runs = sorted(root.glob("dag_id=*/run_id=*"))
    yield from runs
    of_runs = set(runs)
    for path in sorted(root.rglob("*")):
        is_file = path.is_file() and not path.is_symlink()
        if is_file and of_runs.isdisjoint(path.parents):
            yield path


def _last_written(one: Path) -> float:
    files = [one] if one.is_file() else [path for path in one.rglob("*") if path.is_file()]
    return max((path.stat().st_mtime for path in files), default=one.stat().st_mtime)


def _size(one: Path) -> int:
    return one.stat().st_size if one.is_file() else size_of(one)


def _remove(one: Path) -> None:
    if one.is_file():
        one.unlink()
    else:
        shutil.rmtree(one)


def _remove_empty_folders(root: Path, limit: float) -> None:
    """Those of DAGs and days whose last log went so long ago; a new one waits for its first."""
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not folder.is_symlink() and folder.stat().st_mtime < limit:
            with suppress(OSError):
                folder.rmdir()
