"""The dimensions' history: its Delta table, and the part of it that a driver keeps in memory.

A version of a row is valid from its transaction's commit LSN to that of the next transaction that
changes the row. Dimensions of up to CACHED_ROWS_MAX rows are kept in memory; of a larger one the
versions that a micro-batch needs are looked up by Spark in the Delta table, on as many machines as
there are. Both give the same versions.
"""

import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from string import Template
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.cdc.order_records import AssignmentRow, NameRow, PizzaRow
from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE, Transaction
from lockstep.pizzeria import (
    CLIENTS,
    DIMENSION_CHANGES,
    DIMENSION_CHANGES_COLUMNS,
    DIMENSION_CHANGES_PARTITION,
    DIMENSION_TABLES,
    PIPELINE,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
    sql_name,
)
from lockstep.project import MARKER, read_project_file
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached, arrow_schema, reached_of
from lockstep.sources.delta import open_table, run_query
from lockstep.streams.ops import CREATED, DELETED, SNAPSHOT_ROW, UPDATED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHED_ROWS_MAX = 200_000
"""Rows of one dimension kept in memory: some 100 MB."""
SMALL_ROWS_MAX = 500
"""A dimension of so few rows (a menu) is joined as a whole, and stays bound until it changes."""
FOREVER = 2**63 - 1
_SCHEMA = arrow_schema(DIMENSION_CHANGES_COLUMNS)
_VALUES = {
    TABLE_ASSIGNMENT: ("client_id", "table_id"),
    CLIENTS: ("name",),
    TABLES: ("name",),
    PIZZAS: ("name", "price"),
}
"""The columns of each dimension besides its id."""
Values = tuple[object, ...] | None
"""A row's values in the order of _VALUES; None for a row that is deleted."""


@dataclass(frozen=True, slots=True)
class Version:
    """A row of a dimension as one transaction left it."""

    dimension: str
    id: int
    op: str
    values: Values
    tx_id: int | None
    commit_lsn: int
    committed_us: int


class DimensionCache:
    """Versions by dimension and id; a dimension that grew too large is absent.

    version_count: versions of all dimensions; any thread may read it.
    """

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, list[tuple[int, Values]]]] = {
            dimension: {} for dimension in DIMENSION_TABLES
        }
        self._whole: dict[str, pa.Table] = {}
        self.version_count = 0

    def holds(self, dimension: str) -> bool:
        return dimension in self._versions

    def take(self, version: Version, settled_lsn: int) -> None:
        """Add a version, known or not. What ended at or before settled_lsn is forgotten."""
        rows = self._versions.get(version.dimension)
        if rows is None:
            return
        versions = rows.setdefault(version.id, [])
        at = bisect.bisect_left(versions, version.commit_lsn, key=lambda known: known[0])
        if at < len(versions) and versions[at][0] == version.commit_lsn:
            return
        versions.insert(at, (version.commit_lsn, version.values))
        self.version_count += 1
        self._whole.pop(version.dimension, None)
        while len(versions) > 1 and versions[1][0] <= settled_lsn:
            versions.pop(0)
            self.version_count -= 1
        if len(rows) > CACHED_ROWS_MAX:
            self.version_count -= sum(map(len, rows.values()))
            del self._versions[version.dimension]

    def living(self, dimension: str) -> set[int]:
        """Ids of the rows whose newest version is no delete."""
        rows = self._versions[dimension]
        return {id_ for id_, versions in rows.items() if versions[-1][1] is not None}

    def relation(self, dimension: str, ids: Collection[int]) -> pa.Table:
        """All kept versions of these rows at least, as a relation of the shared SQL.

        Of a small dimension all rows, and the same table until one changes.
        """
        rows = self._versions[dimension]
        if len(rows) > SMALL_ROWS_MAX:
            return _relation_of(dimension, rows, ids)
        if dimension not in self._whole:
            self._whole[dimension] = _relation_of(dimension, rows, rows)
        return self._whole[dimension]


def _relation_of(
    dimension: str, rows: dict[int, list[tuple[int, Values]]], ids: Collection[int]
) -> pa.Table:
    return relation(
        dimension, ((id_, lsn, values) for id_ in ids for lsn, values in rows.get(id_, ()))
    )


def relation(dimension: str, versions: Iterable[tuple[int, int, Values]]) -> pa.Table:
    """id, the dimension's columns, valid_from, valid_to (commit LSNs); deleted rows are absent.

    versions: (id, commit LSN, values), those of one id together and in order.
    """
    ids: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    values: list[Values] = []
    for id_, lsn, row in versions:
        if ids and ids[-1] == id_:
            ends[-1] = lsn
        ids.append(id_)
        starts.append(lsn)
        ends.append(FOREVER)
        values.append(row)
    columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
    for place, name in enumerate(_VALUES[dimension]):
        column = [None if row is None else row[place] for row in values]
        columns[name] = pa.array(column, _SCHEMA.field(name).type)
    columns["valid_from"] = pa.array(starts, pa.int64())
    columns["valid_to"] = pa.array(ends, pa.int64())
    alive = pa.array([row is not None for row in values], pa.bool_())
    return pa.table(columns).filter(alive)


_NONE: Mapping[str, Collection[int]] = {}


def versions_of(
    transaction: Transaction,
    changes: Iterable[Change],
    living: Callable[[str], set[int]],
    told_elsewhere: Mapping[str, Collection[int]] = _NONE,
    created: Collection[tuple[str, int]] = (),
) -> list[Version]:
    """The last version of each dimension row that the transaction changed.

    living: gives the ids of a dimension's rows before the transaction, which a TRUNCATE deletes.
    told_elsewhere: rows by dimension of which other slices of the transaction tell the last
    version, so that a TRUNCATE among these changes is not it.
    created: dimension and id of rows whose inserts by the transaction are not among these changes.
    """
    found: dict[tuple[str, int], Version] = {}
    for change in changes:
        if change.table not in _VALUES:
            continue
        if change.op == TRUNCATE:
            gone = living(change.table)
            gone.update(id_ for dimension, id_ in found if dimension == change.table)
            gone.difference_update(told_elsewhere.get(change.table, ()))
            for id_ in gone:
                found[change.table, id_] = _version(change, id_, DELETED, None, transaction)
        elif change.row is not None:
            op = CREATED if change.op == SNAPSHOT_ROW else change.op
            key = (change.table, change.row.id)
            is_new = key in created or (key in found and found[key].op == CREATED)
            if op == UPDATED and is_new:
                op = CREATED
            values = None if op == DELETED else _values(change.row)
            version = _version(change, change.row.id, op, values, transaction)
            found[key] = version
    return list(found.values())


def _version(
    change: Change, id_: int, op: str, values: Values, transaction: Transaction
) -> Version:
    return Version(
        dimension=change.table,
        id=id_,
        op=op,
        values=values,
        tx_id=transaction.tx_id,
        commit_lsn=transaction.commit_lsn,
        committed_us=change.committed_us,
    )


def _values(row: object) -> Values:
    match row:
        case AssignmentRow():
            return (row.client_id, row.table_id)
        case PizzaRow():
            return (row.name, row.price.quantize(Decimal("0.01")))
        case NameRow():
            return (row.name,)
    raise TypeError(f"{type(row).__name__} is no row of a dimension")


def history_rows(versions: Sequence[Version]) -> pa.Table:
    """The versions as rows of the dimensions' history."""

    def column(name: str) -> list:
        return [
            None
            if v.values is None or name not in _VALUES[v.dimension]
            else v.values[_VALUES[v.dimension].index(name)]
            for v in versions
        ]

    columns = {
        "dimension": [v.dimension for v in versions],
        "id": [v.id for v in versions],
        "op": [v.op for v in versions],
        **{name: column(name) for name in ("name", "price", "client_id", "table_id")},
        "tx_id": [v.tx_id for v in versions],
        "commit_lsn": [v.commit_lsn for v in versions],
        "committed_at": [datetime.fromtimestamp(v.committed_us / 1e6, UTC) for v in versions],
    }
    return pa.table(columns, schema=_SCHEMA)


def history_log(settings: Settings) -> AppendLog:
    """The history's table, for its one writer."""
    return AppendLog(
        settings.table_uri(DIMENSION_CHANGES),
        arrow_schema(DIMENSION_CHANGES_COLUMNS),
        DIMENSION_CHANGES_PARTITION,
        settings.stream_versions_kept_hours,
    )


def stored_history(settings: Settings) -> Reached:
    """How far the history goes in Delta, whoever writes it."""
    uri = settings.table_uri(DIMENSION_CHANGES)
    return reached_of(open_table(uri)) if DeltaTable.is_deltatable(uri) else Reached(None, 0)


def load_cache(settings: Settings, frontier: int | None) -> tuple[DimensionCache, Reached]:
    """The versions that orders after the frontier may need, and how far the history was by then.

    Of one version of the history's table: another query may be writing it.
    """
    cached = DimensionCache()
    uri = settings.table_uri(DIMENSION_CHANGES)
    if not DeltaTable.is_deltatable(uri):
        return cached, Reached(None, 0)
    table = open_table(uri)
    for dimension in DIMENSION_TABLES:
        for version in _stored_versions(table, dimension, frontier):
            cached.take(version, -1)
            if not cached.holds(dimension):
                break
    return cached, reached_of(table)


def stored_living(settings: Settings, dimension: str) -> set[int]:
    """Ids of the rows whose newest version in Delta is no delete."""
    versions = _stored_versions(
        open_table(settings.table_uri(DIMENSION_CHANGES)), dimension, FOREVER
    )
    return {version.id for version in versions if version.values is not None}


def _stored_versions(table: DeltaTable, dimension: str, frontier: int | None) -> Iterator[Version]:
    query = _versions_query().substitute(
        dimension=dimension, frontier=-1 if frontier is None else frontier
    )
    names = _VALUES[dimension]
    for rows in run_query(query, {sql_name(DIMENSION_CHANGES): table}):
        for row in rows.to_pylist():
            values = None if row["op"] == DELETED else tuple(row[name] for name in names)
            yield Version(dimension, row["id"], row["op"], values, None, row["commit_lsn"], 0)


@cache
def _versions_query() -> Template:
    return Template(read_project_file(MARKER / PIPELINE / "dimension_versions.sql"))


def stored_relation(
    spark: "SparkSession", settings: Settings, dimension: str, ids: Collection[int]
) -> pa.Table:
    """The versions of these rows looked up by Spark in the history's Delta table."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = spark.createDataFrame(pa.table({"id": pa.array(sorted(ids), pa.int64())}))
    history = (
        spark.read.format("delta")
        .load(settings.table_uri(DIMENSION_CHANGES))
        .where(F.col("dimension") == dimension)
    )
    if ids:  # lets Delta pass over files, and Parquet over row groups
        history = history.where(F.col("id").between(min(ids), max(ids)))
    found = (
        history.join(F.broadcast(wanted), "id", "left_semi")
        .dropDuplicates(["id", "commit_lsn"])
        .select("id", "commit_lsn", "op", *_VALUES[dimension])
        .toArrow()
        .sort_by([("id", "ascending"), ("commit_lsn", "ascending")])
        .to_pylist()
    )
    names = _VALUES[dimension]
    return relation(
        dimension,
        (
            (
                row["id"],
                row["commit_lsn"],
                None if row["op"] == DELETED else tuple(row[name] for name in names),
            )
            for row in found
        ),
    )
