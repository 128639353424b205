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
from lockstep.errors import ServiceError
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.folder import read_source_manifest
from lockstep.pipeline.project_files import SOURCE_FILE, SOURCES
from lockstep.project import project_dir
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

    name: str
    folder: Path

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
    ServiceError naming each file that fails, psycopg.OperationalError when the server is lost.
    """
    failures = []
    with _connect(settings, "postgres") as admin:
        _prepare_server(admin)
        for one in _source_databases(project_dir()):
            try:
                _prepare(settings, admin, one)
            except ServiceError as error:
                failures.append(str(error))
        _set_passwords(settings, admin)
    if failures:
        raise ServiceError("\n".join(failures))


def _source_databases(project: Path) -> Iterator[_SourceDatabase]:
    for file in sorted((project / SOURCES).glob(f"*/{SOURCE_FILE}")):
        try:
            manifest = read_source_manifest(project, file.parent.name)
        except ManifestError:
            continue
        if manifest.host is None:
            yield _SourceDatabase(manifest.database, file.parent / DATABASE_FOLDER)


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


def _connect(settings: Settings, database: str, role: Role = Role.ADMIN) -> psycopg.Connection:
    return psycopg.connect(**settings.connection(role, database), autocommit=True)


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


def _set_passwords(settings: Settings, admin: psycopg.Connection) -> None:
    """Set the passwords that do not work yet, hashed here so that the server never logs one."""
    rows = admin.execute("SELECT rolname, rolpassword IS NULL FROM pg_authid").fetchall()
    without_password = dict(rows)
    for role in Role:
        if role is Role.ADMIN or role not in without_password:
            continue
        if not without_password[role] and _can_sign_in(settings, role):
            continue
        hashed = admin.pgconn.encrypt_password(
            settings.password(role).encode(), role.encode(), b"scram-sha-256"
        ).decode()
        admin.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed))
        )


def _can_sign_in(settings: Settings, role: Role) -> bool:
    """Whether the server takes the role's password; it looks at rights only then."""
    try:
        _connect(settings, "postgres", role).close()
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
