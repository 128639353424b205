"""What is inside PostgreSQL: roles and their passwords, the two databases, the project's schema.

The SQL is in include/postgres; here is only who runs which file where. A digest of the files is
kept as the database's comment, so that a prepared database is recognised and left alone.
"""

import hashlib
from pathlib import Path

import psycopg
from psycopg import sql

from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.pipeline.pipeline_names import names_of
from lockstep.project import project_dir, read_project_file
from lockstep.settings import Settings

SQL_FOLDER = Path("include", "postgres")
"""Below the project's folder."""
ROLES_FILE = "roles.sql"
OWNER_FILES = "owner_files.txt"
"""The files that the database's owner runs, in their order, a line each."""
SOURCE_USERS = (Role.SHOP, Role.BATCH_READER, Role.CDC)
"""Who may connect to the source's database, apart from its owner."""


def source_database() -> str:
    """The database whose schema is include/postgres: that of the project's own pipeline.

    Whichever pipeline a process works for, no other database gets this schema.
    """
    return names_of(project_dir()).database


def prepare_database(settings: Settings) -> None:
    """Bring roles, passwords, databases and the project's schema to what the files say.

    Guarantee: a prepared server is left as it is, without a single write. Raises psycopg.Error
    when the administrator cannot do it.
    """
    digest = _digest()
    with _connect(settings, Role.ADMIN, "postgres") as admin:
        prepared = _prepared_digest(admin) == digest
        if not prepared:
            admin.execute(_read(ROLES_FILE))
        _set_passwords(settings, admin)
        if prepared:
            return
        admin.execute("REVOKE ALL ON DATABASE postgres FROM PUBLIC")
        _create_database(admin, source_database(), Role.OWNER, SOURCE_USERS)
        _create_database(admin, AIRFLOW_DATABASE, Role.AIRFLOW, ())
    _apply_schema(settings)
    with _connect(settings, Role.ADMIN, "postgres") as admin:
        admin.execute(
            sql.SQL("COMMENT ON DATABASE {} IS {}").format(
                sql.Identifier(source_database()), sql.Literal(digest)
            )
        )


def _connect(settings: Settings, role: Role, database: str) -> psycopg.Connection:
    return psycopg.connect(**settings.connection(role, database), autocommit=True)


def _read(name: str) -> str:
    return read_project_file(SQL_FOLDER / name)


def _owner_files() -> list[str]:
    return _read(OWNER_FILES).split()


def _digest() -> str:
    contents = "\0".join(_read(name) for name in (ROLES_FILE, *_owner_files()))
    return f"lockstep schema {hashlib.sha256(contents.encode()).hexdigest()}"


def _prepared_digest(admin: psycopg.Connection) -> str | None:
    row = admin.execute(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
        [source_database()],
    ).fetchone()
    return row[0] if row else None


def _set_passwords(settings: Settings, admin: psycopg.Connection) -> None:
    """Set the passwords that do not work yet, hashed here so that the server never logs one."""
    rows = admin.execute("SELECT rolname FROM pg_authid WHERE rolpassword IS NULL").fetchall()
    without_password = {name for (name,) in rows}
    for role in Role:
        if role is Role.ADMIN:
            continue
        if role not in without_password and _can_sign_in(settings, role):
            continue
        hashed = admin.pgconn.encrypt_password(
            settings.password(role).encode(), role.encode(), b"scram-sha-256"
        ).decode()
        admin.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed))
        )


def _can_sign_in(settings: Settings, role: Role) -> bool:
    """Whether the role's own database takes its password."""
    database = AIRFLOW_DATABASE if role is Role.AIRFLOW else source_database()
    try:
        _connect(settings, role, database).close()
    except psycopg.OperationalError:
        return False
    return True


def _create_database(
    admin: psycopg.Connection, name: str, owner: Role, users: tuple[Role, ...]
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


def _apply_schema(settings: Settings) -> None:
    """Run the owner's files as one transaction: the schema changes whole or not at all."""
    with _connect(settings, Role.ADMIN, source_database()) as admin:
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with _connect(settings, Role.OWNER, source_database()) as owner, owner.transaction():
        for name in _owner_files():
            owner.execute(_read(name))
