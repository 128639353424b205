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
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lockstep.model.modes import BATCH, FEEDS
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pizzeria import (
    ORDERS_ENRICHED,
    ORDERS_ENRICHED_COLUMNS,
    ORDERS_ENRICHED_PARTITIONS,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import NO_HOOKS, WRITER, translate_delta_errors

SCHEMA = arrow_schema(ORDERS_ENRICHED_COLUMNS)
CHANGES_SCHEMA = SCHEMA.append(pa.field("op", pa.string()))
"""Of changes to be merged: at most one for each order; a `d` has its order's id alone."""
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


def exists(settings: Settings) -> bool:
    """Whether anything was ever published."""
    return DeltaTable.is_deltatable(settings.table_uri(ORDERS_ENRICHED))


def open_or_create(settings: Settings) -> DeltaTable:
    """The newest version; an empty table, fed by the batch, where there was none."""
    uri = settings.table_uri(ORDERS_ENRICHED)
    with translate_delta_errors(uri):
        if exists(settings):
            return DeltaTable(uri)
        kept = f"interval {settings.stream_versions_kept_hours} hours"
        return DeltaTable.create(
            uri,
            SCHEMA,
            partition_by=list(ORDERS_ENRICHED_PARTITIONS),
            configuration={
                "delta.logRetentionDuration": kept,
                "delta.deletedFileRetentionDuration": kept,
            },
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
    table: DeltaTable, changes: pa.Table | pa.RecordBatchReader, where: str, mark: Mark
) -> None:
    """Make each order what its change says, in one commit; the others stay.

    changes: as CHANGES_SCHEMA. where: a condition on `t` that holds for every row of these orders,
        so that the others are not read; empty without one.
    Merging the same again gives the same rows. Raises LakehouseError; then nothing has changed.
    """
    columns = {name: f"s.{name}" for name in SCHEMA.names}
    version = table.version()
    with translate_delta_errors(table.table_uri):
        (
            table.merge(
                changes,
                "t.order_id = s.order_id" + (f" AND ({where})" if where else ""),
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


def replace_rows(table: DeltaTable, rows: pa.RecordBatchReader, where: str, mark: Mark) -> None:
    """Make `rows` the only ones for which the condition holds, in one commit; the others stay.

    rows: as SCHEMA, and all such that the condition holds for them, or Delta refuses them.
    where: on the partition columns alone, so that no file of other rows is opened.
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
            SCHEMA,
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
