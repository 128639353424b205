"""Captures a source: its connector, with the tables of its publication, and who may read its topic.

What a connector is kept running with is connector.py's; nothing in the source's database is changed
but the slot, which the connector makes.
"""

from dataclasses import dataclass

from lockstep.capture import connector, preflight
from lockstep.capture.connector_secrets import keep_passwords, source_key
from lockstep.capture.connectors import (
    Connector,
    connector_of,
    has_template,
    of_source,
    table_pattern,
    tables_of,
)
from lockstep.capture.reset import remove_capture, reset_capture
from lockstep.capture.topic_rights import grant_reading
from lockstep.errors import ServiceError
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import plans_of
from lockstep.pipeline.project import Project, Source, read_project
from lockstep.settings import Settings
from lockstep.sources.database_state import read_publication
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import capturer_of


@dataclass(frozen=True)
class SourceCapture:
    """late: tables that came into the publication after the snapshot, and are not captured."""

    connector: Connector
    late: tuple[TableName, ...]


def capture_source(
    settings: Settings, project: Project, source: Source, *, new_snapshot: bool = False
) -> SourceCapture:
    """Register the source's connector, or restart what failed in it, and wait until it runs.

    new_snapshot: delete the connector, slot and topic of before; no stream of the source may run.
    Guarantees: a running connector with this configuration is left alone; the change topic exists
    when this returns, and the streams' reader may read it. Raises ServiceError when the database is
    not ready or the connector does not run in time, ConfigurationError without a password, and
    PostgresUnavailableError.
    """
    password = str(capturer_of(settings, source).parameters["password"])
    keep_passwords(settings, {source_key(source.name): password})
    if new_snapshot:
        remove_capture(settings, of_source(settings, source, ()))
    capture = source_capture(settings, project, source)
    _require_own_topic(settings, capture.connector)
    preflight.check(settings, capture.connector, first=False)
    grant_reading(settings, capture.connector.change_topic)
    connector.ensure_running(settings, capture.connector)
    return capture


def begin_again(settings: Settings) -> None:
    """Begin the capture of the source that is worked for from scratch, with a new snapshot.

    The caller sees to it that no stream of it runs. Raises as capture_source does.
    """
    project = read_project(settings.project)
    source = project.source(settings.names.source)
    if has_template(settings, source):
        reset_capture(settings, connector_of(settings))
    else:
        capture_source(settings, project, source, new_snapshot=True)


def _require_own_topic(settings: Settings, capture: Connector) -> None:
    """Raises ServiceError when there is a change topic without the connector that writes it."""
    if connector.captured_patterns(settings, capture) is not None:
        return
    if connector.topic_is_there(settings, capture):
        raise ServiceError(
            f"the topic {capture.change_topic} is there, and the connector {capture.name} is not: "
            "another connector writes this topic, or Connect has lost its storage. If no stream "
            f"reads it any more, begin again: {capture.remedies.begin_again}"
        )


def source_capture(settings: Settings, project: Project, source: Source) -> SourceCapture:
    """What the source's connector captures: the published tables that are in the catalog.

    Where some that pipelines read are not published, they are there as well, for the preflight to
    name. Of a connector that is registered no table is added: a later one has rows that are not in
    the topic. Raises ServiceError when a pipeline reads such a table.
    """
    name = source.publication
    with connect_to(capturer_of(settings, source), application_name="lockstep source") as database:
        publication = read_publication(database, name)
    known = {table.name for table in source.catalog.tables}
    published = known & publication.tables if publication else set()
    read = set(tables_of(plans_of(project, source.name)))
    late = _late(settings, source, published | read)
    if needed := sorted(late & read):
        raise ServiceError(
            f"pipelines read {', '.join(map(str, needed))}, and the connector of source "
            f"{source.name} began without: rows of before are not in its topic. Stop the source's "
            f"streams, and then: `lockstep source capture {source.name} --new-snapshot`"
        )
    keyed = {table.name for table in source.catalog.tables if table.key}
    captured = (published | read) - late or keyed - late
    if not captured:
        raise ServiceError(
            f"the connector of source {source.name} captures no table of its catalog: see that the "
            f"catalog is right, and then `lockstep source capture {source.name} --new-snapshot`"
        )
    return SourceCapture(of_source(settings, source, captured), tuple(sorted(late)))


def _late(settings: Settings, source: Source, tables: set[TableName]) -> set[TableName]:
    """Those of the tables that the registered connector does not capture."""
    registered = connector.captured_patterns(settings, of_source(settings, source, ()))
    if registered is None:
        return set()
    return {table for table in tables if table_pattern(table) not in registered}
