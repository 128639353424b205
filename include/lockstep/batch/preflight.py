"""What can be known to be wrong before Spark is started is said at once, not ten seconds later."""

from lockstep import jars
from lockstep.model.modes import ReadMode
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import require_writable
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.hourly_runs import open_hourly, require_layout
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader
from lockstep.sources.source_view import view_of


def check_ready(settings: Settings, read_mode: ReadMode) -> None:
    """Raise the LockstepError that a run would meet: jars, lakehouse, database, tables."""
    jars.classpath(settings, "spark")
    require_writable(settings)
    if (hourly := open_hourly(settings)) is not None:
        require_layout(hourly)
    plan = plan_named(settings.project, settings.names.pipeline)
    relations = [*plan.tables, *([view_of(plan)] if read_mode is ReadMode.VIEW else [])]
    with connect_to(reader(settings)) as connection:
        found = connection.execute(
            "SELECT schema || '.' || name "
            "FROM unnest(%s::text[], %s::text[]) AS asked(schema, name) "
            "WHERE to_regclass(format('%%I.%%I', schema, name)) IS NULL",
            ([one.schema for one in relations], [one.name for one in relations]),
        )
        missing = [name for (name,) in found]
    if missing:
        raise PostgresUnavailableError(
            f"database {settings.names.database} at {settings.postgres_host}:"
            f"{settings.postgres_port} lacks {', '.join(missing)}; `lockstep up --only postgres` "
            "creates what is missing"
        )
