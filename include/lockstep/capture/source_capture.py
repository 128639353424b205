"""Captures a source: its connector, with the tables of its publication, and who may read its topic.

What a connector is kept running with is connector.py's; nothing in the source's database is changed
but the slot, which the connector makes.
"""

from collections.abc import Iterable

from lockstep.capture import connector, preflight
from lockstep.capture.connector_secrets import keep_passwords, source_key
from lockstep.capture.connectors import (
    Connector,
    connector_of,
    connector_with,
    has_template,
    of_source,
    table_pattern,
)
from lockstep.capture.reset import remove_capture, reset_capture
from lockstep.capture.side_snapshot import (
    LateTables,
    Progress,
    keep_captured_tables,
    take_side_snapshot,
)
from lockstep.capture.topic_rights import grant_reading
from lockstep.errors import ServiceError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, plans_of, tables_followed
from lockstep.pipeline.project import Project, Source, read_project
from lockstep.settings import Settings
from lockstep.sources.database_state import read_publication
from lockstep.sources.postgres import connect_to
from lockstep.sources.side_snapshots import read_side_snapshots
from lockstep.sources.source_database import capturer_of


def capture_source(
    settings: Settings,
    project: Project,
    source: Source,
    *,
    new_snapshot: bool = False,
    progress: Progress = lambda _: None,
) -> Connector:
    """Register the source's connector, or restart what failed in it, and wait until it runs.

    Returns it, with the tables that it captures. Tables that pipelines read and the connector began
    without come by a side snapshot. new_snapshot: delete the connector, slot and topic of before;
    no stream of the source may run.
    progress: called with what a side snapshot does next.
    Guarantees: a running connector with this configuration is left alone; the change topic exists
    when this returns, and the streams' reader may read it. Raises ServiceError when the database is
    not ready or the connector does not run in time, ConfigurationError without a password, and
    PostgresUnavailableError.
    """
    password = str(capturer_of(settings, source).parameters["password"])
    keep_passwords(settings, {source_key(source.name): password})
    with _alone(settings, source):
        if new_snapshot:
            remove_capture(settings, of_source(settings, source, ()))
        _require_own_topic(settings, of_source(settings, source, ()))
        return _kept_captured(settings, project, source, progress)


def keep_captured(
    settings: Settings, project: Project, source: Source, progress: Progress = lambda _: None
) -> Connector:
    """The same for a source whose password Connect has; one process at a time. Raises so, too.

    A connector that is gone is registered again, and goes on where it was.
    """
    with _alone(settings, source):
        return _kept_captured(settings, project, source, progress)


def _kept_captured(
    settings: Settings, project: Project, source: Source, progress: Progress
) -> Connector:
    registered = connector.first_tables(settings, of_source(settings, source, ()))
    published = _published(settings, source)
    wanted = _wanted(project, source, published)
    capture = connector_with(settings, source, wanted)
    preflight.check(settings, capture, first=registered is None)
    grant_reading(settings, capture.change_topic)
    connector.ensure_running(settings, capture)
    first = _first(source, registered, wanted)
    for table in keep_captured_tables(settings, capture, first, published):
        progress(
            f"{table} was removed from the publication {source.publication} since it was "
            "captured: changes are missing, and its rows are read again if a pipeline needs it"
        )
    coming = _coming(settings, source, plans_of(project, source.name))
    if coming is not None:
        take_side_snapshot(settings, capture, coming, progress)
    return capture


def _first(
    source: Source, registered: Iterable[str] | None, wanted: Iterable[TableName]
) -> list[TableName]:
    """The tables of the connector's own snapshot: those that were wanted when it was registered."""
    if registered is None:
        return sorted(wanted)
    patterns = set(registered)
    return [one.name for one in source.catalog.tables if table_pattern(one.name) in patterns]


def begin_again(settings: Settings) -> None:
    """Begin the capture of the source that is worked for from scratch, with a new snapshot.

    The caller sees to it that no stream of it runs. Raises as capture_source does.
    """
    project = read_project(settings.project)
    source = project.source(settings.names.source)
    if not has_template(settings, source):
        capture_source(settings, project, source, new_snapshot=True)
        return
    with _alone(settings, source):
        reset_capture(settings, connector_of(settings))
        _kept_captured(settings, project, source, lambda _: None)


def _require_own_topic(settings: Settings, capture: Connector) -> None:
    """Raises ServiceError when there is a change topic without the connector that writes it."""
    is_registered = connector.first_tables(settings, capture) is not None
    if not is_registered and connector.topic_is_there(settings, capture):
        raise ServiceError(
            f"the topic {capture.change_topic} is there, and the connector {capture.name} is not: "
            "another connector writes this topic, or Connect has lost its storage. If no stream "
            f"reads it any more, begin again: {capture.remedies.begin_again}"
        )


def _published(settings: Settings, source: Source) -> dict[TableName, int]:
    """The published tables that are in the catalog, each with the number of its membership."""
    with connect_to(capturer_of(settings, source), application_name="lockstep source") as database:
        publication = read_publication(database, source.publication)
    known = {table.name for table in source.catalog.tables}
    members = publication.members if publication else {}
    return {table: number for table, number in members.items() if table in known}


def _wanted(project: Project, source: Source, published: Iterable[TableName]) -> set[TableName]:
    """What the source's connector captures: the published tables that are in the catalog.

    Where some that pipelines read are not published, they are there as well, for the preflight to
    name. Raises ServiceError when there is nothing to capture.
    """
    wanted = set(published) | tables_followed(project, source.name)
    if not wanted:
        wanted = {table.name for table in source.catalog.tables if table.key}
    if not wanted:
        raise ServiceError(f"the catalog of source {source.name} has no table with a primary key")
    return wanted


def _coming(settings: Settings, source: Source, plans: Iterable[Plan]) -> LateTables | None:
    """What a side snapshot is to bring: the tables of each pipeline that has rows of none."""
    taken = read_side_snapshots(settings, source.name)
    waiting = [plan.captured for plan in plans if not taken.has_all(plan.captured)]
    tables = {table for of_plan in waiting for table in of_plan}
    if not tables:
        return None
    late = (one for one in tables if not taken.has(one))
    return LateTables(tuple(sorted(tables)), tuple(sorted(late)))


def _alone(settings: Settings, source: Source) -> FileLock:
    folder = make_private_folder(settings.home / "sources" / source.name)
    return FileLock.acquire(
        folder / "capture.lock",
        lambda pid: ServiceError(
            f"another process ({pid or 'unknown'}) registers the connector of source "
            f"{source.name}: wait until it has ended"
        ),
    )
