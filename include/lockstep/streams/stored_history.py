"""A source's history in Delta, read without Spark: whole tables, some rows, or one version.

Never writes. Which columns a row has comes from the plan of who reads.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from string import Template

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from msgspec.structs import astuple

from lockstep.errors import StreamError
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.result_tables import HISTORY_PARTITION
from lockstep.pipeline.values import comparable
from lockstep.sinks.append_log import Reached, reached_of
from lockstep.sources.delta import open_table, run_query
from lockstep.streams.kept_tables import KeptTable, read_kept
from lockstep.streams.row_store import Values
from lockstep.streams.table_rows import Key, TableRow
from lockstep.streams.versions import Columns, Version

_VERSIONS = Template(Path(__file__).with_name("history_versions.sql").read_text(encoding="utf-8"))
_READ = ["row_key", "row", "commit_lsn"]


@dataclass(frozen=True)
class StoredHistory:
    """The history at a URI, in its newest version whenever it is asked."""

    uri: str

    def reached(self) -> Reached:
        """How far the history goes; nowhere when there is none yet."""
        if not DeltaTable.is_deltatable(self.uri):
            return Reached(None, 0)
        return reached_of(open_table(self.uri))

    def require(self, tables: Mapping[TableName, KeptTable]) -> None:
        """Raise PipelineError unless the history keeps this of these tables.

        One that is not there yet is made with all that the source's pipelines read.
        """
        if not DeltaTable.is_deltatable(self.uri):
            return
        described = open_table(self.uri).metadata()
        kept = read_kept(described.configuration, described.description)
        for name, wanted in tables.items():
            found = kept.get(name, KeptTable((), wanted.since))
            if not found.covers(wanted):
                lacking = [one for one in wanted.columns if one not in found.columns]
                what = f"{', '.join(lacking)} of {name}" if lacking else f"the rows of {name}"
                raise PipelineError(
                    f"the history {self.uri} does not keep {what} yet: its writer makes that when "
                    "it starts; end the source's streams, and start them again"
                )

    def count(self, table: PlannedTable) -> int:
        """How many versions of the table's rows there are; some may be there twice. Reads the log
        of the Delta table alone."""
        if not DeltaTable.is_deltatable(self.uri):
            return 0
        files = pa.table(open_table(self.uri).get_add_actions(flatten=True))
        of_table = pc.equal(files[f"partition.{HISTORY_PARTITION}"], str(table.name))
        return pc.sum(files["num_records"].filter(of_table)).as_py() or 0

    def versions(self, table: PlannedTable, frontier: int | None) -> Iterator[Version]:
        """Every version of the table's rows that is valid at the frontier or later."""
        if not DeltaTable.is_deltatable(self.uri):
            return
        text = _VERSIONS.substitute(
            table=str(table.name).replace("'", "''"),
            frontier=-1 if frontier is None else frontier,
        )
        found = run_query(text, {"history": open_table(self.uri)})
        yield from _versions_in(table, (row for batch in found for row in batch.to_pylist()))

    def living(self, table: PlannedTable, commit_lsn: int) -> Iterator[Key]:
        """The keys of the table's rows after a commit."""
        for key, versions in groupby(self.versions(table, commit_lsn), key=attrgetter("key")):
            first = next(versions)
            if first.commit_lsn <= commit_lsn and first.values is not None:
                yield key

    def versions_of(self, table: PlannedTable, keys: Collection[Key]) -> list[Version]:
        """All versions of these rows, those of one row together and in order."""
        texts = pa.array([table.key_text(key) for key in keys], pa.string())
        return self._found(table, ds.field("row_key").isin(texts))

    def versions_by(
        self, table: PlannedTable, columns: Columns, values: Collection[Key]
    ) -> list[Version]:
        """All versions of the rows of which a version has some of the values, in the same order.

        By other columns than the key the whole table is read.
        """
        if columns == table.key:
            return self.versions_of(table, values)
        places = [table.columns.index(name) for name in columns]
        keys = {
            version.key
            for version in self.versions(table, None)
            if version.values is not None
            and tuple(comparable(version.values[place]) for place in places) in values
        }
        return self.versions_of(table, keys)

    def values_before(
        self, table: PlannedTable, keys: Collection[Key], commit_lsn: int
    ) -> dict[Key, Values]:
        """The values of these rows before a commit; None of one that is deleted by then."""
        versions = self.versions_of(table, keys)
        return {one.key: one.values for one in versions if one.commit_lsn < commit_lsn}

    def row_before(self, table: PlannedTable, key: Key, commit_lsn: int) -> TableRow:
        """The row as the last version before a commit has it. Raises StreamError without one."""
        is_before = ds.field("commit_lsn") < commit_lsn
        is_row = ds.field("row_key") == table.key_text(key)
        found = self._scan(table, is_row & is_before).sort_by("commit_lsn")
        if not found.num_rows or found["row"][-1].as_py() is None:
            raise StreamError(
                f"the history {self.uri} has no version of {table.name} {table.key_text(key)} "
                f"before LSN {commit_lsn}, which has a large value that the change left as it was: "
                "write the row again in the database"
            )
        text = found["row"][-1].as_py().encode()
        values = astuple(table.decoder.decode(text))
        return TableRow(key, values, table.decoder.texts(text))

    def _found(self, table: PlannedTable, condition: ds.Expression) -> list[Version]:
        found = self._scan(table, condition)
        order = [("row_key", "ascending"), ("commit_lsn", "ascending")]
        return list(_versions_in(table, found.sort_by(order).to_pylist()))

    def _scan(self, table: PlannedTable, condition: ds.Expression) -> pa.Table:
        if not DeltaTable.is_deltatable(self.uri):
            return pa.table({name: [] for name in _READ})
        of_table = ds.field("table") == str(table.name)
        dataset = open_table(self.uri).to_pyarrow_dataset()
        return dataset.to_table(columns=_READ, filter=of_table & condition)


def _versions_in(table: PlannedTable, stored: Iterable[dict]) -> Iterator[Version]:
    """stored: by row_key and commit_lsn. Of a row that only has deletes nothing."""
    for _, group in groupby(stored, key=itemgetter("row_key")):
        texts = {one["commit_lsn"]: one["row"] for one in group}
        values = {
            commit_lsn: None if text is None else astuple(table.decoder.decode(text.encode()))
            for commit_lsn, text in texts.items()
        }
        key = next((table.key_of(row) for row in values.values() if row is not None), None)
        for commit_lsn, row in values.items() if key is not None else ():
            yield Version(key, commit_lsn, row)
