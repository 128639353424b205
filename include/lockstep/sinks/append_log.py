"""An append-only Delta table whose commits carry how far in the database's history they reach.

Every commit records two application transactions: the frontier (a commit LSN) and the offset of the
change topic from which reading must go on after a crash; a change log also records which capture it
is of, since LSNs of two captures do not compare. So the table alone says what is in it,
whatever a micro-batch's number or Spark's own files say: what lies at or before the frontier is
never written again. Commits are made by the one process that holds the writer's lock: on a local
file system by local_appends.py, elsewhere, and where more than rows changes, by delta-rs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from lockstep.delta_tables import open_delta
from lockstep.errors import LakehouseError
from lockstep.pipeline.row_keys import literal
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.sinks.delta_commits import NO_HOOKS, WRITER, translate_delta_errors
from lockstep.sinks.local_appends import LocalAppends
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.sinks.maintenance import Maintenance, compact_by_delta_rs, forget_versions

FRONTIER_APP_ID = "lockstep/frontier"
RESUME_APP_ID = "lockstep/resume_offset"
CAPTURE_APP_ID = "lockstep/capture"
APPEND_ONLY = "delta.appendOnly"


@dataclass(frozen=True)
class Reached:
    """How far a table's content goes: frontier None before the snapshot's rows are in it."""

    frontier: int | None
    resume_offset: int


def reached_of(table: DeltaTable) -> Reached:
    """What the newest version of a stream's table says of itself."""
    return Reached(
        table.transaction_version(FRONTIER_APP_ID), table.transaction_version(RESUME_APP_ID) or 0
    )


def capture_id_of(table: DeltaTable) -> int | None:
    """Which capture the newest version's rows are of: a number that another capture never has.

    None of a table without rows, and of one that was last written before captures had numbers.
    """
    return table.transaction_version(CAPTURE_APP_ID)


def pipeline_version_of(table: DeltaTable) -> str:
    """The version of the pipeline that a change log is of, as it is described."""
    return table.metadata().description or VERSION_OF_BEFORE


class AppendLog:
    """One table, opened for its one writer. Its methods raise LakehouseError with the reason."""

    def __init__(  # noqa: PLR0913 - what a table is made with
        self,
        uri: str,
        schema: pa.Schema,
        partition: str,
        versions_kept_hours: int,
        capture_id: int | None = None,
        description: str | None = None,
        *,
        versions_max: int | None = None,
    ) -> None:
        """Open the table, or make an empty one with these columns and this description.

        capture_id: which capture its rows are of; None leaves what the table says of that.
        versions_max: kept in its log at most, on a local file system; None: all of the kept hours.
        A table that lacks only the last columns, as an earlier version made it, gets them now; its
        rows have nulls there.
        """
        self.uri, self._folder = uri, local_folder(uri)
        self._capture_id = capture_id
        self.schema = schema
        self._partition = partition
        self._kept_hours, self._versions_max = versions_kept_hours, versions_max
        self._description = description
        with translate_delta_errors(uri):
            self._table = self._opened()
            self._add_new_columns()
            if self._folder is not None:
                LocalAppends.remove_left(self._folder)
        self._appends = self._local_appends()
        self._maintenance = Maintenance(self._version(), is_log_read=self._appends is None)
        self._has_checkpoint = False
        self._require_columns()
        self.reached = reached_of(self._table)

    @property
    def description(self) -> str | None:
        """What the table was described by when it was made."""
        return self._table.metadata().description

    def append(self, rows: pa.Table, frontier: int, resume_offset: int) -> None:
        """Write the rows and the new frontier in one commit; none when there is nothing new.

        rows: all changes between the table's frontier and the new one, and no others.
        """
        if self.reached.frontier is not None and frontier <= self.reached.frontier:
            if rows.num_rows:
                raise LakehouseError(
                    f"{self.uri} has reached {self.reached.frontier} and was given "
                    f"{rows.num_rows} rows up to {frontier}: a defect; nothing was written"
                )
            if resume_offset <= self.reached.resume_offset:
                return
        marks = self._marks(frontier, resume_offset)
        with translate_delta_errors(self.uri):
            if self._appends is None or not self._appends.commit(rows, marks):
                self._commit(rows, marks)
        self.reached = Reached(frontier, resume_offset)

    def append_stream(
        self, rows: Iterator[pa.RecordBatch], frontier: int, resume_offset: int
    ) -> None:
        """The same for rows that do not fit into memory: one commit, written as they come."""
        reader = pa.RecordBatchReader.from_batches(self.schema, rows)
        with translate_delta_errors(self.uri):
            self._write(reader, commit_properties(self._marks(frontier, resume_offset)))
        self.reached = Reached(frontier, resume_offset)

    def add(self, rows: pa.Table) -> None:
        """Write rows ahead of the frontier's move; a crash may lead to their being there twice."""
        if rows.num_rows:
            with translate_delta_errors(self.uri):
                self._write(rows, CommitProperties())

    def replace(self, partitions: Sequence[str], rows: pa.RecordBatchReader) -> None:
        """Replace all rows of some partitions in one commit; the frontier stays.

        rows: of these partitions alone, and of commits up to the frontier.
        """
        values = ", ".join(map(literal, partitions))
        with translate_delta_errors(self.uri), self._newest() as table, rewritable(table):
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=f'"{self._partition}" IN ({values})',
                writer_properties=WRITER,
                post_commithook_properties=NO_HOOKS,
            )

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's own, of any length; a description has 4,000 characters at most."""
        return self._table.metadata().configuration

    def set_property(self, name: str, value: str) -> None:
        """In a commit of its own. name: with a prefix that is not Delta's."""
        with translate_delta_errors(self.uri), self._newest() as table:
            table.alter.set_table_properties({name: value}, raise_if_not_exists=False)

    def maintain(self) -> bool:
        """Every now and then: write a checkpoint, compact small files, remove what is not needed.

        Readers see the same rows before, during and after. Returns whether files were compacted.
        Another thread than the writer's may call it, one at a time.
        """
        if not self._maintenance.is_due(self._version()):
            return False
        with translate_delta_errors(self.uri):
            appends, table = self._appends, open_delta(self.uri)
            compact = compact_by_delta_rs if appends is None else appends.compact
            is_tidied = self._maintenance.look_after(table, self._kept_hours, compact)
            if is_tidied and self._folder is not None and self._versions_max is not None:
                forget_versions(self._folder, self._versions_max)
        self._has_checkpoint = True
        return is_tidied

    def _version(self) -> int:
        """The newest that is known."""
        return self._table.version() if self._appends is None else self._appends.version

    @contextmanager
    def _newest(self) -> Iterator[DeltaTable]:
        """The table for a commit by delta-rs in the block; later appends are made after that.

        After a new checkpoint, too: a table that stays open would go on reading the log without it,
        and what it would read may be gone.
        """
        if self._appends is not None or self._has_checkpoint:
            self._has_checkpoint = False
            self._table = open_delta(self.uri)
            if reached_of(self._table) != self.reached:
                raise LakehouseError(
                    f"another process writes {self.uri}, which has reached "
                    f"{reached_of(self._table)} and not {self.reached}: end one of the two; "
                    "nothing was written here"
                )
        yield self._table
        self._appends = self._local_appends()

    def _local_appends(self) -> LocalAppends | None:
        if self._folder is None:
            return None
        return LocalAppends.to(self._folder, self._table, self._partition)

    def _commit(self, rows: pa.Table, marks: Mapping[str, int]) -> None:
        properties = commit_properties(marks)
        if rows.num_rows:
            self._write(rows, properties)
            return
        with self._newest() as table:
            table.create_write_transaction(
                [],
                "append",
                self.schema,
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
            table.update_incremental()

    def _write(self, rows: pa.Table | pa.RecordBatchReader, properties: CommitProperties) -> None:
        with self._newest() as table:
            write_deltalake(
                table,
                rows,
                mode="append",
                writer_properties=WRITER,
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )

    def _marks(self, frontier: int, resume_offset: int) -> dict[str, int]:
        return marks_of(Reached(frontier, resume_offset), self._capture_id)

    def _opened(self) -> DeltaTable:
        if DeltaTable.is_deltatable(self.uri):
            return DeltaTable(self.uri)
        kept = f"interval {self._kept_hours} hours"
        return DeltaTable.create(
            self.uri,
            self.schema,
            partition_by=[self._partition],
            description=self._description,
            configuration={
                APPEND_ONLY: "true",
                "delta.logRetentionDuration": kept,
                "delta.deletedFileRetentionDuration": kept,
            },
        )

    def _add_new_columns(self) -> None:
        found = len(self._table.schema().fields)
        if found < len(self.schema) and self._column_names() == self.schema.names[:found]:
            missing = Schema.from_arrow(pa.schema(list(self.schema)[found:])).fields
            self._table.alter.add_columns(missing, post_commithook_properties=NO_HOOKS)

    def _column_names(self) -> list[str]:
        return [field.name for field in self._table.schema().fields]

    def _require_columns(self) -> None:
        found = self._column_names()
        if found != self.schema.names:
            raise LakehouseError(
                f"the table {self.uri} has the columns {', '.join(found)}, not "
                f"{', '.join(self.schema.names)}: another version wrote it; "
                "`lockstep stream rebuild` makes it again"
            )


def marks_of(reached: Reached, capture_id: int | None) -> dict[str, int]:
    """A commit's application transactions, which reached_of and capture_id_of read."""
    marks = {
        FRONTIER_APP_ID: reached.frontier,
        RESUME_APP_ID: reached.resume_offset,
        CAPTURE_APP_ID: capture_id,
    }
    return {app_id: mark for app_id, mark in marks.items() if mark is not None}


def commit_properties(marks: Mapping[str, int]) -> CommitProperties:
    """Application transactions for a commit by delta-rs."""
    return CommitProperties(app_transactions=[Transaction(*mark) for mark in marks.items()])


@contextmanager
def rewritable(table: DeltaTable) -> Iterator[None]:
    """Let the rows of an append-only table be replaced in the block; after a failure it stays so,
    until the next time."""
    table.alter.set_table_properties({APPEND_ONLY: "false"})
    yield
    table.alter.set_table_properties({APPEND_ONLY: "true"})
