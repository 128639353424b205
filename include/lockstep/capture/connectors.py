"""Which Debezium connectors there are: one of each source. Asks nothing.

A configuration is a template in JSON. In its values `${lockstep:NAME}` stands for what differs
between connectors or places; the code has the names. A project may have a template of its own for
the source of the embedded database, include/connectors/<source>.json; that of other sources is
source_connector.json next to this file.

JSON has no comments, so the reasons are here:
- connector.class: ours (capture/java), Debezium's but for the place from which it goes
  on after a restart: the end of a whole transaction. Debezium's own places cost changes.
- offset.mismatch.strategy trust_slot: the slot decides where the server begins, as it does anyway;
  against lost changes no strategy helped.
- heartbeat.action.query: the log of other databases is in the same stream and is kept until the
  slot moves, which takes a transaction in our database; it also moves the clock of the streams in
  quiet hours. Transactional, for other messages are outside of the commit order.
- snapshot.include.collection.list: the tables of the first snapshot, and for good: ensure_running
  leaves it as it was registered. Which changes come is the publication's to say, so that a table
  which is added to it is captured from then on, and no task starts again.
- slot.failover true marks the slot that the snapshot belongs to. A connector that finds no slot
  creates another one and says nothing; `connector.clear_mark` sees to it that such a
  one has no mark, by which the streams know it.
- retriable.restart.connector.wait.ms: after a restart of PostgreSQL the task comes back by itself.
- transforms.route: everything but the connector's own heartbeat goes into one topic, in order.
- lsn.flush.mode stays `connector`: the driver's own flushing could confirm what was not yet read.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lockstep.capture.connector_secrets import CDC_PASSWORD_KEY, password_reference, source_key
from lockstep.errors import ConfigurationError
from lockstep.model.log import HEARTBEAT_MESSAGE_PREFIX
from lockstep.pipeline import names
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import tables_followed
from lockstep.pipeline.project import Project, Source, read_project
from lockstep.pipeline.project_files import SOURCES
from lockstep.pipeline.types import stopping_columns
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.postgres import RoleConnection
from lockstep.sources.preparation import publication_statement
from lockstep.sources.source_database import address_of, capturer_of

TEMPLATES = Path("include", "connectors")
"""Below the project's folder."""
SOURCE_TEMPLATE = Path(__file__).with_name("source_connector.json")
PLACEHOLDER = re.compile(r"\$\{lockstep:([^}]*)\}")


@dataclass(frozen=True)
class Remedies:
    """What to do, as messages end: when the publication is missing, the connector is not
    registered, or capture has a gap that only a new snapshot closes."""

    publish: str
    register: str
    begin_again: str


@dataclass(frozen=True)
class Connector:
    """A connector, and what it reads and writes.

    name: in Connect. source: whose it is. tables: those that are captured. full_identity: those of
    them whose changes must carry the whole old row. database: the role that it signs in as; called
    only where the database is asked. configuration: all of it, without passwords. Both raise
    ConfigurationError.
    """

    name: str
    source: str
    change_topic: str
    slot: str
    publication: str
    tables: tuple[TableName, ...]
    full_identity: frozenset[TableName]
    remedies: Remedies
    database: Callable[[], RoleConnection]
    configuration: Callable[[], dict[str, str]]


def connector_of(settings: Settings) -> Connector:
    """That of the source of the pipeline that is worked for.

    One without a template of the project is given no tables: for what asks how it does. Raises
    PipelineError when a pipeline cannot be planned, ManifestError when its folder has problems.
    """
    project = read_project(settings.project)
    source = project.source(settings.names.source)
    tables = tables_followed(project, source.name) if has_template(settings, source) else ()
    return connector_with(settings, source, tables)


def registered_connector(settings: Settings) -> Connector:
    """The same without its tables: for what asks again and again how it does.

    To know the tables is to plan every query of the project. Raises ManifestError when the source's
    folder has problems.
    """
    source = read_project(settings.project).source(settings.names.source)
    return connector_with(settings, source, ())


def connector_with(settings: Settings, source: Source, tables: Iterable[TableName]) -> Connector:
    """A source's, of the project's template if there is one, which captures these tables."""
    if has_template(settings, source):
        return _of_template(settings, source, tables)
    return of_source(settings, source, tables)


def embedded_connectors(settings: Settings) -> list[Connector]:
    """Those that the stack registers as it starts: of the sources with a template of the project.

    Raises as connector_of does.
    """
    project = read_project(settings.project)
    return [
        _of_template(settings, one, tables_followed(project, one.name))
        for one in embedded_sources(settings, project)
    ]


def embedded_sources(settings: Settings, project: Project) -> list[Source]:
    """The sources with a template of the project. Raises ManifestError for one with problems."""
    return [
        project.source(name)
        for name in (*project.sources, *project.source_problems)
        if (settings.project / _template(name)).is_file()
    ]


def has_template(settings: Settings, source: Source) -> bool:
    """Whether the project has a template of its own for the source's connector."""
    return (settings.project / _template(source.name)).is_file()


def _template(source: str) -> Path:
    return TEMPLATES / f"{source}.json"


def _of_template(settings: Settings, source: Source, tables: Iterable[TableName]) -> Connector:
    captured, template = tuple(sorted(tables)), _template(source.name)
    placeholders = _source_placeholders(settings, source, captured) | {
        "cdc_password": password_reference(settings, CDC_PASSWORD_KEY),
        "heartbeat_prefix": HEARTBEAT_MESSAGE_PREFIX,
    }
    return Connector(
        name=source.connector,
        source=source.name,
        change_topic=names.change_topic(source.name),
        slot=source.slot,
        publication=source.publication,
        tables=captured,
        full_identity=frozenset(captured),
        remedies=Remedies(
            publish=f"run {SOURCES / source.name}/database/publication.sql",
            register="`lockstep up`",
            begin_again="`lockstep capture reset`",
        ),
        database=partial(capturer_of, settings, source),
        configuration=lambda: filled(template, read_project_file(template), placeholders),
    )


def of_source(settings: Settings, source: Source, tables: Iterable[TableName]) -> Connector:
    """A source's, which captures these tables of its catalog."""
    captured = tuple(sorted(tables))
    placeholders = _source_placeholders(settings, source, captured)
    publication, capture = placeholders["publication"], f"`lockstep source capture {source.name}"
    return Connector(
        name=source.connector,
        source=source.name,
        change_topic=placeholders["change_topic"],
        slot=placeholders["slot"],
        publication=publication,
        tables=captured,
        full_identity=frozenset(
            table for table in captured if stopping_columns(table, source.catalog)
        ),
        remedies=Remedies(
            publish=f"run {publication_statement(publication, captured)}",
            register=f"{capture}`",
            begin_again=f"{capture} --new-snapshot`",
        ),
        database=partial(capturer_of, settings, source),
        configuration=lambda: filled(
            SOURCE_TEMPLATE, SOURCE_TEMPLATE.read_text(encoding="utf-8"), placeholders
        ),
    )


def _source_placeholders(
    settings: Settings, source: Source, tables: tuple[TableName, ...]
) -> dict[str, str]:
    name, manifest = source.name, source.manifest
    host, port = address_of(settings, manifest)
    return {
        "postgres_host": host,
        "postgres_port": str(port),
        "cdc_password": password_reference(settings, source_key(name)),
        "cdc_role": manifest.roles.capture,
        "database": manifest.database,
        "tables": tables_pattern(tables),
        "publication": source.publication,
        "slot": source.slot,
        "topic_prefix": source.connector,
        "change_topic": names.change_topic(name),
        "heartbeat_prefix": names.heartbeat_prefix(name),
    }


def tables_pattern(tables: Iterable[TableName]) -> str:
    """As Debezium lists tables: a regular expression for each."""
    return ",".join(table_pattern(table) for table in tables)


def table_pattern(table: TableName) -> str:
    """One that no other table's name matches, but for its case.

    A comma is there by its number: of the snapshot's tables Debezium 3.6 splits the list at an
    escaped one as well.
    """
    return re.sub(r"([^\w])", r"\\\1", str(table)).replace("\\,", "\\x2c")


def filled(file: Path, text: str, known: dict[str, str]) -> dict[str, str]:
    """A template's configuration; raises ConfigurationError for a placeholder not in `known`."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ConfigurationError(
                f"{file} uses ${{lockstep:{match[1]}}}; there are: {', '.join(known)}"
            )
        return known[match[1]]

    return {name: PLACEHOLDER.sub(value, text) for name, text in json.loads(text).items()}
