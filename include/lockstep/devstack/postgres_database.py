"""What is inside PostgreSQL: roles and their passwords, Airflow's database, that of each source.

A source without a host is a database of this server, with the SQL of its folder's `database/`. Here
is only who runs which file where. A digest of the files is kept as the database's comment, so that
a prepared database is recognised and left alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.errors import ConfigurationError, ServiceError
from lockstep.pipeline.folder import source_manifests
from lockstep.pipeline.project_files import SOURCE_FILE, SOURCES
from lockstep.settings import Settings

DATABASE_FOLDER = "database"
"""Of a source's folder: the SQL of its database."""
ROLES_FILE = "roles.sql"
"""Optional: roles of the source's applications. The administrator runs it."""
OWNER_FILES = "owner_files.txt"
"""The files that the database's owner runs, in their order, a line each."""
_SERVER_ROLES = Path(__file__).with_name("roles.sql")
_READERS = (Role.BATCH_READER, Role.CDC)
"""The library's roles, which may connect to each source's database."""


@dataclass(frozen=True)
class _SourceDatabase:
    """A source's database of this server. folder: of its SQL; a database may have none."""

    source: str
    name: str
    folder: Path
    logins: tuple[str, ...]

    @property
    def owner(self) -> str:
        """The role that owns the database. It signs in only if the source's roles.sql says so."""
        return f"{self.name}_owner"

    @property
    def files(self) -> list[Path]:
        """Those that the owner runs."""
        names = _text(self.folder / OWNER_FILES).split() if self.folder.is_dir() else []
        return [self.folder / name for name in names]

    @property
    def roles(self) -> Path | None:
        """The source's own roles, if it has any."""
        file = self.folder / ROLES_FILE
        return file if file.exists() else None

    @property
    def digest(self) -> str:
        """Of every file that made it."""
        return _digest([*([self.roles] if self.roles else []), *self.files])


def prepare_database(settings: Settings) -> None:
    """Bring roles, passwords and databases to what the files say.

    A source whose source.toml cannot be read is left as it is: `lockstep pipeline check` names it.

    Guarantees: a prepared server is left as it is, without a single write; a database gets its SQL
    whole or not at all, and one whose SQL fails keeps no other from being prepared. Raises
    ServiceError naming each file that fails and each login that is no role or has no password,
    psycopg.OperationalError when the server is lost.
    """
    failures, source_of_login = [], {}
    with _connect(settings, "postgres") as admin:
        _prepare_server(admin)
        for role in Role:
            if role is not Role.ADMIN:
                _set_password(settings, admin, role, settings.password(role))
        for one in _source_databases(settings.project):
            try:
                _prepare(settings, admin, one)
                _set_logins(settings, admin, one, source_of_login)
            except (ServiceError, ConfigurationError) as error:
                failures.append(str(error))
    if failures:
        raise ServiceError("\n".join(failures))


def _source_databases(project: Path) -> Iterator[_SourceDatabase]:
    for name, manifest in source_manifests(project):
        if manifest.host is None:
            folder = project / SOURCES / name / DATABASE_FOLDER
            yield _SourceDatabase(name, manifest.database, folder, manifest.logins)


def _prepare_server(admin: psycopg.Connection) -> None:
    """The library's own roles, and Airflow's database."""
    digest = _digest([_SERVER_ROLES])
    if _prepared_digest(admin, AIRFLOW_DATABASE) == digest:
        return
    admin.execute(_text(_SERVER_ROLES))
    admin.execute("REVOKE ALL ON DATABASE postgres FROM PUBLIC")
    _create_database(admin, AIRFLOW_DATABASE, Role.AIRFLOW, ())
    _note_prepared(admin, AIRFLOW_DATABASE, digest)


def _prepare(settings: Settings, admin: psycopg.Connection, wanted: _SourceDatabase) -> None:
    digest = wanted.digest
    if _prepared_digest(admin, wanted.name) == digest:
        return
    if wanted.roles:
        with _named(wanted.roles):
            admin.execute(_text(wanted.roles))
    owner = sql.Identifier(wanted.owner)
    if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [wanted.owner]).rowcount == 0:
        admin.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(owner))
    _create_database(admin, wanted.name, wanted.owner, _READERS)
    with _connect(settings, wanted.name) as inside:
        inside.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        inside.execute(sql.SQL("SET ROLE {}").format(owner))
        with inside.transaction():
            for file in wanted.files:
                with _named(file):
                    inside.execute(_text(file))
    _note_prepared(admin, wanted.name, digest)


def _connect(settings: Settings, database: str) -> psycopg.Connection:
    return psycopg.connect(**settings.connection(Role.ADMIN, database), autocommit=True)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(f"{file} cannot be read: {error}") from None


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Of an error in a file's SQL: ServiceError with the file and what the server says."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise ServiceError(
            f"{file} fails: {str(error).strip()}; correct it, and run `lockstep up` again"
        ) from None


def _digest(files: Sequence[Path]) -> str:
    contents = "\0".join(map(_text, files))
    return f"lockstep schema {hashlib.sha256(contents.encode()).hexdigest()}"


def _prepared_digest(admin: psycopg.Connection, database: str) -> str | None:
    row = admin.execute(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
        [database],
    ).fetchone()
    return row[0] if row else None


def _note_prepared(admin: psycopg.Connection, database: str, digest: str) -> None:
    comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
    admin.execute(comment.format(sql.Identifier(database), sql.Literal(digest)))


def _set_logins(
    settings: Settings,
    admin: psycopg.Connection,
    of: _SourceDatabase,
    source_of_login: dict[str, str],
) -> None:
    """The passwords of the source's applications, whose roles its roles.sql has made.

    source_of_login: of the sources before, to which these are added. Roles are the server's, so
    two sources cannot each have a password for one.
    """
    file = SOURCES / of.source / SOURCE_FILE
    for role in of.logins:
        if (other := source_of_login.setdefault(role, of.source)) != of.source:
            raise ServiceError(
                f"{file}: `logins` names {role}, which is a login of source {other} too: roles "
                "are the server's, so rename one of them"
            )
        if not _signs_in(admin, role):
            raise ServiceError(
                f"{file}: `logins` names {role}, which is no role that signs in: create it WITH "
                f"LOGIN in {of.folder / ROLES_FILE}, or take it out"
            )
        password = settings.source_password(of.source, role).password
        _set_password(settings, admin, role, password)


def _signs_in(admin: psycopg.Connection, role: str) -> bool:
    found = admin.execute("SELECT FROM pg_roles WHERE rolname = %s AND rolcanlogin", [role])
    return found.rowcount == 1


def _set_password(settings: Settings, admin: psycopg.Connection, role: str, password: str) -> None:
    """Unless it works already; hashed here, so that the server never logs it."""
    has_one = "SELECT FROM pg_authid WHERE rolname = %s AND rolpassword IS NOT NULL"
    if admin.execute(has_one, [role]).rowcount and _can_sign_in(settings, role, password):
        return
    hashed = admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    admin.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(role), sql.Literal(hashed.decode())
        )
    )


def _can_sign_in(settings: Settings, role: str, password: str) -> bool:
    """Whether the server takes the role's password; it looks at rights only then."""
    parameters = settings.connection(Role.ADMIN, "postgres") | {"user": role, "password": password}
    try:
        psycopg.connect(**parameters).close()
    except psycopg.OperationalError as error:
        return "permission denied for database" in str(error)
    return True


def _create_database(
    admin: psycopg.Connection, name: str, owner: str, users: tuple[Role, ...]
) -> None:
    database = sql.Identifier(name)
    if admin.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount == 0:
        admin.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(owner))
        )
    admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    for user in users:
        admin.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(user))
        )
