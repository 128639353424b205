"""What can be known to be wrong before Spark is started is said at once, not ten seconds later."""

from lockstep import jars
from lockstep.accounts import Role
from lockstep.errors import PostgresUnavailableError
from lockstep.model.modes import ReadMode
from lockstep.pizzeria import DATABASE, ENRICHMENT_TABLES, VIEW
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import require_writable
from lockstep.sources.hourly_runs import open_hourly, require_layout
from lockstep.sources.postgres import connect


def check_ready(settings: Settings, read_mode: ReadMode) -> None:
    """Raise the LockstepError that a run would meet: jars, lakehouse, database, tables."""
    jars.classpath(settings, "spark")
    require_writable(settings)
    if (hourly := open_hourly(settings)) is not None:
        require_layout(hourly)
    relations = ENRICHMENT_TABLES if read_mode is ReadMode.TABLES else (*ENRICHMENT_TABLES, VIEW)
    with connect(settings, Role.BATCH_READER) as connection:
        found = connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL",
            (list(relations),),
        )
        missing = [name for (name,) in found]
    if missing:
        raise PostgresUnavailableError(
            f"database {DATABASE} at {settings.postgres_host}:{settings.postgres_port} lacks "
            f"{', '.join(missing)}; `lockstep up --only postgres` creates what is missing"
        )
