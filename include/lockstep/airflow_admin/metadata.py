"""Airflow's metadata kept short, by Airflow's own command `airflow db clean`.

What belongs to the DAGs that supervise is left alone, as are triggers: a run of theirs lasts for
months, and `db clean` goes by the time a run began, whether or not it has ended.
"""

import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psycopg

from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.airflow_admin.environment import airflow_environment, airflow_home
from lockstep.errors import ServiceError
from lockstep.host.process import run_to_end
from lockstep.pipeline.modes import STREAM_MODES
from lockstep.pipeline.names import Job, job_dag_id, mode_dag_id
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

OF_RUNS = ("dag_run",)
"""And, as Airflow has it, what depends on runs: task instances, their history, XComs, deadlines."""
BY_AGE_ALONE = ("asset_event", "callback", "import_error", "job", "log", "revoked_token")
"""Rows without a DAG would be kept for good where DAGs are excepted, so these are cleaned apart."""
CLEAN_SECONDS_MAX = 300.0
_FOUND = re.compile(r"^Found (\d+) rows meeting deletion criteria", re.MULTILINE)


def unavailable(settings: Settings) -> str | None:
    """Why there is no metadata to clean from here; None when there is some."""
    if settings.airflow_password is None:
        return "no password of its database here: run `airflow db clean` where Airflow runs"
    try:
        with psycopg.connect(**settings.connection(Role.AIRFLOW, AIRFLOW_DATABASE)) as metadata:
            (table,) = metadata.execute("SELECT to_regclass('dag_run')").fetchone()
    except psycopg.OperationalError:
        return "its database does not answer: `lockstep up` starts it"
    return "it has no tables yet: `lockstep up` makes them" if table is None else None


def long_running(project: Path) -> list[str]:
    """The DAGs of a project's pipelines whose one run lasts for as long as something is to run."""
    found = read_project(project)
    return [
        dag_id
        for name in (*found.pipelines, *found.pipeline_problems)
        for dag_id in (job_dag_id(name, Job.PUBLISH), *(mode_dag_id(name, m) for m in STREAM_MODES))
    ]


def clean_metadata(settings: Settings, before: datetime, *, is_dry_run: bool) -> int:
    """Delete the rows of before that time; returns how many, in a dry run how many it would.

    Run again it finds none. Raises ServiceError when Airflow's command fails; what it deleted until
    then stays deleted.
    """
    kept = long_running(settings.project)
    excepted = ("--exclude-dag-ids", ",".join(kept)) if kept else ()
    return sum(
        _clean(settings, before, options, is_dry_run)
        for options in (
            ("--tables", ",".join(OF_RUNS), *excepted),
            ("--tables", ",".join(BY_AGE_ALONE)),
        )
    )


def _clean(settings: Settings, before: datetime, options: Sequence[str], is_dry_run: bool) -> int:
    """Counted before and after, for the command's own exit code does not say what was deleted.

    Airflow 3.3.2 asks for a DAG's id in the table `deadline`, which has none, and so fails there
    wherever DAGs are excepted; deadlines go with their runs all the same.
    """
    found = _count(settings, before, options)
    if found and not is_dry_run:
        _db_clean(settings, before, *options, "--yes", "--skip-archive")
        if left := _count(settings, before, options):
            raise ServiceError(
                f"airflow db clean left {left:,} of {found:,} rows: `lockstep airflow db clean "
                f"--clean-before-timestamp {before.isoformat()} {' '.join(options)}` says why"
            )
    return found


def _count(settings: Settings, before: datetime, options: Sequence[str]) -> int:
    return sum(map(int, _FOUND.findall(_db_clean(settings, before, *options, "--dry-run"))))


def _db_clean(settings: Settings, before: datetime, *options: str) -> str:
    """What the command writes. It has the metadata's password, which Airflow's tasks have not."""
    arguments = ("db", "clean", "--clean-before-timestamp", before.isoformat(), *options)
    done = run_to_end(
        [sys.executable, "-m", "airflow", *arguments],
        "airflow db clean",
        CLEAN_SECONDS_MAX,
        env=airflow_environment(settings),
        cwd=airflow_home(settings),
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ServiceError(f"airflow db clean failed ({done.returncode}): {' '.join(last)}")
    return done.stdout
