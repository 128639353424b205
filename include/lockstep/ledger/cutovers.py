"""The ledger of cutovers: a line for each switch of the published table's feed."""

from dataclasses import asdict, dataclass
from datetime import datetime

from lockstep.ledger.book import append_rows, rows_of
from lockstep.settings import Settings

CUTOVERS_COLUMNS = {
    "switched_at": "timestamp",
    "from_feed": "string",
    "to_feed": "string",
    "lsn": "bigint",
    "hourly_version": "bigint",
    "published_version": "bigint",
    "rows_before": "bigint",
    "rows_after": "bigint",
    "approved_by": "string",
    "verified_since": "timestamp",
    "verified_through": "timestamp",
}


@dataclass(frozen=True)
class Cutover:
    """One switch, which is one commit of the published table: published_version.

    lsn: the commit LSN up to which the stream's changes are in the table at this version: of the
        stream that feeds it now, or, when the batch does, of the one that fed it before.
    hourly_version: of the hourly table, whose rows the batch feeds, or fed.
    verified_since, verified_through: of the stream that feeds it now; None for the batch.
    """

    switched_at: datetime
    from_feed: str
    to_feed: str
    lsn: int | None
    hourly_version: int | None
    published_version: int
    rows_before: int
    rows_after: int
    approved_by: str
    verified_since: datetime | None
    verified_through: datetime | None


def append(settings: Settings, line: Cutover) -> None:
    """Add a line; nothing is rewritten. Raises LakehouseError."""
    append_rows(settings, settings.names.cutovers, CUTOVERS_COLUMNS, [asdict(line)])


def lines(settings: Settings) -> list[Cutover]:
    """All switches, the oldest first."""
    query = "SELECT * FROM ledger ORDER BY published_version"
    return [Cutover(**row) for row in rows_of(settings, settings.names.cutovers, query)]
