"""The published table: what feeds it and how far, and the two ways in which a commit changes it.

These facts are application transactions of the Delta table, set by the commits that make them true,
so that rows and facts cannot come apart:

- `lockstep/fed_by/<feed>` has the version of the commit that switched to the feed; the feed is the
  one with the greatest;
- `lockstep/published/<feed>` says how far: of a stream the commit LSN up to which every change is
  in the table, of the hourly table the version whose rows are in it;
- `lockstep/captured/<feed>` has the capture that a stream's LSN is of: those of two captures do
  not compare.

Whoever writes holds the table's writer lock; there is no other way in than these functions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from lockstep.model.modes import BATCH, FEEDS
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import PUBLISHED_COLUMNS, PUBLISHED_PARTITIONS
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.delta_commits import NO_HOOKS, WRITER, translate_delta_errors

CUTOVER_METADATA = "lockstep.cutover"
_FED_BY, _PUBLISHED, _CAPTURED = "lockstep/fed_by/", "lockstep/published/", "lockstep/captured/"


@dataclass(frozen=True)
class Fed:
    """The feed, and how far it is published.

    reached: a commit LSN or the hourly table's version, None while nothing is published.
    switched_in: the version whose commit switched to it; None before the first.
    capture_id: of the capture that a stream's LSN is of; None of the batch, and of a stream that
        was switched to before captures had numbers, until a step finds out.
    """

    feed: str
    reached: int | None
    switched_in: int | None
    capture_id: int | None


@dataclass(frozen=True)
class Mark:
    """What a commit says of itself; with `cutover`, it is the one that switches to the feed.

    capture_id: None leaves what the table says of that.
    """

    feed: str
    reached: int
    capture_id: int | None = None
    cutover: Mapping[str, object] | None = None


def partitions_of(result: Result) -> tuple[str, ...]:
    """The partition columns of a pipeline's published table; none without a time."""
    return PUBLISHED_PARTITIONS if result.time is not None else ()


def schema_of(result: Result) -> pa.Schema:
    """The columns of a pipeline's published table: the author's, then our own."""
    without = set(PUBLISHED_PARTITIONS).difference(partitions_of(result))
    own = {name: type_ for name, type_ in PUBLISHED_COLUMNS.items() if name not in without}
    return arrow_schema({**result.columns, **own})


def changes_schema_of(result: Result) -> pa.Schema:
    """Of changes to be merged: at most one for each row; a `d` has its row's key alone."""
    return schema_of(result).append(pa.field("op", pa.string()))


def open_published(settings: Settings) -> DeltaTable | None:
    """The newest version; None before anything is published."""
    uri = settings.table_uri(settings.names.published_table)
    with translate_delta_errors(uri):
        return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None


def open_or_create(settings: Settings, result: Result) -> DeltaTable:
    """The newest version; an empty table, fed by the batch, where there was none.

    Raises PipelineError when there is one with other columns than this result's.
    """
    if (table := open_published(settings)) is not None:
        require_columns(table, result)
        return table
    uri = settings.table_uri(settings.names.published_table)
    with translate_delta_errors(uri):
        kept = f"interval {settings.stream_versions_kept_hours} hours"
        return DeltaTable.create(
            uri,
            schema_of(result),
            partition_by=list(partitions_of(result)),
            configuration={
                "delta.logRetentionDuration": kept,
                "delta.deletedFileRetentionDuration": kept,
            },
        )


def require_columns(table: DeltaTable, result: Result) -> None:
    """Raise PipelineError for a published table with other columns than this result's."""
    found = {(field.name, str(field.type)) for field in table.schema().fields}
    wanted = {
        (field.name, str(field.type)) for field in Schema.from_arrow(schema_of(result)).fields
    }
    if found == wanted:
        return
    names = ", ".join(sorted({name for name, _ in found ^ wanted}))
    raise PipelineError(
        f"the published table {table.table_uri} was made for another result of the pipeline: "
        f"{names} differ. Change the query back, or stop the publisher, move the table's folder "
        "away and start the publisher again: the batch then publishes every hour that it has"
    )


def fed_of(table: DeltaTable) -> Fed:
    """What this version of the table says of itself."""
    switches = {feed: table.transaction_version(f"{_FED_BY}{feed}") for feed in FEEDS}
    feed = max(FEEDS, key=lambda one: -1 if switches[one] is None else switches[one])
    feed = BATCH if switches[feed] is None else feed
    return Fed(
        feed=feed,
        reached=table.transaction_version(f"{_PUBLISHED}{feed}"),
        switched_in=switches[feed],
        capture_id=table.transaction_version(f"{_CAPTURED}{feed}"),
    )


def merge_changes(
    table: DeltaTable,
    result: Result,
    changes: pa.Table | pa.RecordBatchReader,
    where: str,
    mark: Mark,
) -> None:
    """Make each row what its change says, in one commit; the others stay.

    changes: as changes_schema_of the result. where: a condition on `t` that holds for every row of
        these keys, so that the others are not read; empty without one.
    Merging the same again gives the same rows. Raises LakehouseError; then nothing has changed.
    """
    columns = {quoted(name): f"s.{quoted(name)}" for name in schema_of(result).names}
    of_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in result.key)
    version = table.version()
    with translate_delta_errors(table.table_uri):
        (
            table.merge(
                changes,
                of_key + (f" AND ({where})" if where else ""),
                source_alias="s",
                target_alias="t",
                writer_properties=WRITER,
                commit_properties=_properties(table, mark),
                post_commithook_properties=NO_HOOKS,
            )
            .when_matched_delete("s.op = 'd'")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, "s.op <> 'd'")
            .execute()
        )
    _keep_rows_since(version, table, mark)


def replace_rows(
    table: DeltaTable, rows: pa.RecordBatchReader, where: str | None, mark: Mark
) -> None:
    """Make `rows` the only ones for which the condition holds, in one commit; the others stay.

    rows: as schema_of the result, and all such that the condition holds for them, or Delta refuses
        them.
    where: on the partition columns alone, so that no file of other rows is opened; None for all
        rows of the table.
    Raises LakehouseError; then nothing has changed.
    """
    version = table.version()
    with translate_delta_errors(table.table_uri):
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            predicate=where,
            writer_properties=WRITER,
            commit_properties=_properties(table, mark),
            post_commithook_properties=NO_HOOKS,
        )
    _keep_rows_since(version, table, mark)


def keep_rows(table: DeltaTable, mark: Mark) -> None:
    """Say how far the feed is published, in a commit that changes no row."""
    with translate_delta_errors(table.table_uri):
        table.create_write_transaction(
            [],
            "append",
            table.schema(),
            commit_properties=_properties(table, mark),
            post_commithook_properties=NO_HOOKS,
        )
        table.update_incremental()


def _keep_rows_since(version: int, table: DeltaTable, mark: Mark) -> None:
    """Delta makes no commit of a write that changes no row; then say the mark alone."""
    if table.version() == version:
        keep_rows(table, mark)


def _properties(table: DeltaTable, mark: Mark) -> CommitProperties:
    marks = [Transaction(f"{_PUBLISHED}{mark.feed}", mark.reached)]
    if mark.capture_id is not None:
        marks.append(Transaction(f"{_CAPTURED}{mark.feed}", mark.capture_id))
    of_cutover = {}
    if mark.cutover is not None:
        marks.append(Transaction(f"{_FED_BY}{mark.feed}", table.version() + 1))
        of_cutover[CUTOVER_METADATA] = json.dumps(mark.cutover)
    return CommitProperties(
        app_transactions=marks,
        custom_metadata={
            "lockstep.feed": mark.feed,
            "lockstep.reached": str(mark.reached),
            **of_cutover,
        },
    )
