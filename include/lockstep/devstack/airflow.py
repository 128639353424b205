"""Airflow as its four components, each a process and a service of its own.

Their configuration is in airflow_environment.py. What is alive is asked of the metadata database
(the heartbeats) and of the API server, each for itself, so that one that is gone is not blamed on
the others.
"""

import importlib.metadata
import signal
import subprocess
import sys
import threading
import time

import httpx
import psycopg
from psycopg import sql

from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.airflow_admin.environment import (
    airflow_environment,
    airflow_home,
    write_sign_in_password,
)
from lockstep.airflow_names import SPARK_POOL
from lockstep.errors import ServiceError
from lockstep.host import process
from lockstep.host.certificates import certificates
from lockstep.host.files import bounded_log, last_lines, log_path
from lockstep.host.ports import Port
from lockstep.host.process import Launch
from lockstep.settings import Settings

MIGRATION_SECONDS_MAX = 300
HEARTBEAT_AGE_SECONDS_MAX = 60.0
"""Components write a heartbeat every 5 s, and several times slower while Spark has the cores."""
REST_SECONDS_MAX = 10.0


class AirflowComponent:
    """What the four have in common: environment, migration, a process that is `airflow …`."""

    needs: tuple[str, ...] = ("postgres",)
    ready_seconds_max = 180.0
    stop_signal = signal.SIGTERM
    stop_seconds_max = 20.0

    def __init__(self, component: str, *arguments: str) -> None:
        self.name = f"airflow-{component}"
        self.command = (sys.executable, "-m", "airflow", component, *arguments)

    def address(self, settings: Settings) -> str:
        return ""

    def ports(self, settings: Settings) -> list[Port]:
        return []

    def launch(self, settings: Settings) -> Launch:
        environment = airflow_environment(settings)
        ensure_migrated(settings)
        return Launch(
            command=self.command,
            log=bounded_log(settings.home, self.name),
            environment=environment,
            working_folder=airflow_home(settings),
        )

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        return


class AirflowJob(AirflowComponent):
    """Scheduler, DAG processor or triggerer: alive as long as its heartbeat is fresh.

    A scheduler that lost its database is about to end, but may take minutes to: heartbeats from
    before PostgreSQL's start do not count.
    """

    def __init__(
        self, component: str, job_type: str, *arguments: str, needs: tuple[str, ...] = ()
    ) -> None:
        super().__init__(component, *arguments)
        self.job_type = job_type
        self.needs = (*self.needs, *needs)

    def problem(self, settings: Settings) -> str | None:
        record = process.read_record(settings.home, self.name)
        try:
            with psycopg.connect(**settings.connection(Role.AIRFLOW, AIRFLOW_DATABASE)) as metadata:
                row = metadata.execute(
                    "SELECT extract(epoch FROM max(latest_heartbeat)), "
                    "extract(epoch FROM pg_postmaster_start_time()) FROM job WHERE job_type = %s",
                    [self.job_type],
                ).fetchone()
        except psycopg.Error as error:
            return f"its metadata database cannot be asked: {error}".strip()
        heartbeat, database_since = row
        if heartbeat is None or (record and heartbeat < record.create_time):
            return "no heartbeat yet"
        if heartbeat < database_since:
            return "no heartbeat since PostgreSQL was started"
        age_seconds = time.time() - float(heartbeat)
        if age_seconds > HEARTBEAT_AGE_SECONDS_MAX:
            return f"its last heartbeat is {age_seconds:.0f} s old"
        return None


class AirflowApiServer(AirflowComponent):
    """The API and the pages; alive when it says so itself."""

    stop_seconds_max = 10.0  # an open page keeps its connection; nothing is lost with it

    def __init__(self) -> None:
        super().__init__("api-server")

    def address(self, settings: Settings) -> str:
        return settings.airflow_url

    def ports(self, settings: Settings) -> list[Port]:
        return [Port.of(settings, "airflow_host", "airflow_port")]

    def launch(self, settings: Settings) -> Launch:
        write_sign_in_password(settings)
        return super().launch(settings)

    def problem(self, settings: Settings) -> str | None:
        url = f"{settings.airflow_url}/api/v2/monitor/health"
        try:
            answer = httpx.get(url, timeout=REST_SECONDS_MAX, verify=certificates())
        except httpx.HTTPError as error:
            return f"{url}: {error}"
        if not answer.is_success:
            return f"HTTP {answer.status_code} from {url}"
        status = answer.json()["metadatabase"]["status"]
        return None if status == "healthy" else f"its metadata database is {status}"

    def finish(self, settings: Settings) -> None:
        """Ask the tasks' API once: it is built at its first request, which takes seconds."""
        url = f"{settings.airflow_url}/execution/health"
        try:
            httpx.get(url, timeout=self.ready_seconds_max).raise_for_status()
        except httpx.HTTPError as error:
            raise ServiceError(f"Airflow's API for tasks does not answer: {error}") from error


COMPONENTS: tuple[AirflowApiServer | AirflowJob, ...] = (
    AirflowApiServer(),
    # Logs are read from the disk that all share, so no process serves them on a port.
    # A task that starts before the API server answers fails, so the scheduler waits for it.
    AirflowJob("scheduler", "SchedulerJob", "--skip-serve-logs", needs=("airflow-api-server",)),
    AirflowJob("dag-processor", "DagProcessorJob"),
    AirflowJob("triggerer", "TriggererJob", "--skip-serve-logs"),
)

_migration = threading.Lock()


def ensure_migrated(settings: Settings) -> None:
    """Bring the metadata database to this Airflow's version, with the pool of Spark sessions.

    At once when that is there already. Raises ServiceError with the end of the log when it fails.
    """
    version = f"airflow {importlib.metadata.version('apache-airflow-core')}, {SPARK_POOL}"
    with _migration, _metadata(settings) as metadata:
        (migrated,) = metadata.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database "
            "WHERE datname = current_database()"
        ).fetchone()
        if migrated == version:
            return
        _run_airflow(settings, "db", "migrate")
        _run_airflow(
            settings, "pools", "set", SPARK_POOL, "1", "Spark sessions of Lockstep's tasks"
        )
        metadata.execute(
            sql.SQL("COMMENT ON DATABASE {} IS {}").format(
                sql.Identifier(AIRFLOW_DATABASE), sql.Literal(version)
            )
        )


def _metadata(settings: Settings) -> psycopg.Connection:
    return psycopg.connect(**settings.connection(Role.AIRFLOW, AIRFLOW_DATABASE), autocommit=True)


def _run_airflow(settings: Settings, *arguments: str) -> None:
    """Run an `airflow` command to its end, its output in the log airflow-migration."""
    log = bounded_log(settings.home, "airflow-migration")
    try:
        with log.open("ab") as output:
            done = subprocess.run(
                [sys.executable, "-m", "airflow", *arguments],
                env=airflow_environment(settings),
                cwd=airflow_home(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=MIGRATION_SECONDS_MAX,
                check=False,
            )
        failure = f"failed ({done.returncode})" if done.returncode else None
    except subprocess.TimeoutExpired:
        failure = f"took over {MIGRATION_SECONDS_MAX} s"
    if failure:
        end = "\n".join(last_lines(log_path(settings.home, "airflow-migration"), 15))
        raise ServiceError(f"airflow {' '.join(arguments)} {failure}; the end of {log}:\n{end}")
