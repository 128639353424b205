"""A pipeline's query, analysed: what it reads, what it gives, and where each output is from.

`analyse` is the one entry; it refuses what cannot be evaluated as of each commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import meant
from lockstep.pipeline.query.functions import check_functions
from lockstep.pipeline.query.lineage import Lineage
from lockstep.pipeline.query.names import Base, Names, SourceColumn, output, resolve, source_of
from lockstep.pipeline.query.path import check_windows, path_from_fact
from lockstep.pipeline.query.shape import check_shape
from lockstep.pipeline.query.single import is_one_row_a_fact
from lockstep.pipeline.query.text import SqlText
from lockstep.pipeline.query.tree import mark, parse_query, relation_nodes, span_of

RESERVED_OUTPUTS = frozenset(
    """
    at_lsn valid_from valid_to op tx_id is_raced committed_at captured_at seen_at
    written_at look_up origin run_id cut_snapshot cut_lsn order_date order_hour fed_by
    position window_date row_key row_xid row_committed_at row_children
    """.split()  # noqa: SIM905
)
"""Columns that the hourly table, the change logs, the published table and a run's reads have of
their own."""
_RESERVED_PREFIX = "commit_"
"""Of the change logs' columns about the commit."""


@dataclass(frozen=True)
class Relation:
    """A table that the query reads. columns: those that are read, in the table's order."""

    table: TableName
    columns: tuple[str, ...]


@dataclass(frozen=True)
class OutputColumn:
    """values: what its value is made of. depends: these, and all that decides which rows it is of.

    A name that comes by a LEFT JOIN has the name in `values`; `depends` has the joined ids, too.
    """

    name: str
    values: frozenset[SourceColumn]
    depends: frozenset[SourceColumn]


@dataclass(frozen=True)
class Query:
    """An analysed query. fact_key: the primary key of the fact; key: of the result's row.

    relations: the fact first, then in the order of the text.
    """

    sql: str
    file: Path
    fact: TableName
    fact_key: tuple[str, ...]
    key: tuple[str, ...]
    relations: tuple[Relation, ...]
    outputs: tuple[OutputColumn, ...]
    names: Names = field(repr=False, compare=False)
    path: tuple[Scope, ...] = field(repr=False, compare=False)

    @cached_property
    def is_one_row_a_fact(self) -> bool:
        """Whether each fact is seen to have just one row in the result (single.py)."""
        return is_one_row_a_fact(self.names, self.path)

    def copied(self, name: str) -> Base | None:
        """The column that an output is a plain copy of; None when it is none."""
        root = self.names.root
        if not isinstance(root.expression, exp.Select):
            return None
        return self.names.base(root, output(root, name.lower()))

    def place_of(self, table: str, column: str) -> str:
        """Where the text first names a column of a table, with the file.

        The file alone for a key that the text does not name.
        """
        found = [
            span_of(node)[0]
            for scope in self.names.scopes
            for node in scope.columns
            if isinstance(source := source_of(scope, node.table), exp.Table)
            if str(self.names.source_column(source, node.name)) == f"{table}.{column}"
        ]
        if not found:
            return str(self.file)
        place = self.names.text.position(min(found))
        return f"{self.file}:{place.line}:{place.column}"


def analyse(sql: str, file: Path, catalog: Catalog, fact: TableName, key: Sequence[str]) -> Query:
    """Analyse the text of query.sql for semantics as_of_commit.

    sql: one Spark SQL SELECT with plain joins over the catalog's tables (`table` of the schema
        public, or `schema.table`). key: output columns that identify a row of the result.
    Raises QueryRefusedError with file, line and column of the first place that is not allowed, and
    CatalogError when the fact is not in the catalog. Each rule is named in shape.py, functions.py,
    names.py and path.py; those of the design are in "The modes of as_of_commit" and "Determinism
    gate" of its page.
    """
    text = SqlText(sql, file)
    tree = parse_query(text)
    check_shape(text, tree)
    mark(text, tree)
    outputs = _output_names(text, tree)
    check_functions(text)
    names = resolve(text, tree, catalog)
    fact_key = _fact_key(text, catalog, fact)
    path = path_from_fact(names, fact)
    check_windows(names, path, fact)
    _check_key(text, key, outputs)
    lineage = Lineage(names)
    columns = tuple(
        OutputColumn(name, *lineage.of_output(names.root, name.lower())) for name in outputs
    )
    relations = _relations(names, fact, fact_key)
    return Query(sql, file, fact, fact_key, tuple(key), relations, columns, names, tuple(path))


def _fact_key(text: SqlText, catalog: Catalog, fact: TableName) -> tuple[str, ...]:
    key = catalog.table(fact).key
    if not key:
        why = f"the fact {fact} has no primary key, so its rows cannot be followed"
        raise text.refused((0, len(text.sql) - 1), why, f"ALTER TABLE {fact} ADD PRIMARY KEY ( … )")
    return key


def _output_names(text: SqlText, tree: exp.Query) -> list[str]:
    """As the author spells them. Before `qualify`, which gives a name to what has none."""
    names: list[str] = []
    for node in tree.selects:
        name = node.output_name
        if not name:
            raise text.refused(span_of(node), "this output column has no name", "add AS a_name")
        if name.lower() in RESERVED_OUTPUTS or name.lower().startswith(_RESERVED_PREFIX):
            why = f"{name} is a column of Lockstep's own in every result"
            raise text.refused(span_of(node), why, "use another name")
        if name.lower() in (known.lower() for known in names):
            why = f"there are two output columns {name}"
            raise text.refused(span_of(node), why, "rename one with AS")
        names.append(name)
    return names


def _check_key(text: SqlText, key: Sequence[str], outputs: Sequence[str]) -> None:
    for name in key:
        if name not in outputs:
            why = f"the key column {name} of pipeline.toml is not in the output"
            raise text.refused((0, len(text.sql) - 1), why, meant(name, list(outputs)))


def _relations(names: Names, fact: TableName, fact_key: Sequence[str]) -> tuple[Relation, ...]:
    """The fact's key is always read: `at` is joined by it."""
    read = {(fact, column) for column in fact_key}
    nodes: dict[TableName, int] = {fact: -1}
    for scope in names.scopes:
        for node in _tables(scope):
            nodes.setdefault(names.table(node).name, span_of(node)[0])
        for column in scope.columns:
            source = source_of(scope, column.table)
            if isinstance(source, exp.Table):
                found = names.source_column(source, column.name)
                read.add((found.table, found.column))
    ordered = sorted(nodes, key=nodes.__getitem__)
    return tuple(Relation(table, _in_order(names, table, read)) for table in ordered)


def _in_order(names: Names, table: TableName, read: set[tuple[TableName, str]]) -> tuple[str, ...]:
    columns = (column.name for column in names.catalog.table(table).columns)
    return tuple(name for name in columns if (table, name) in read)


def _tables(scope: Scope) -> list[exp.Table]:
    if not isinstance(scope.expression, exp.Select):
        return []
    sources = (source_of(scope, one.alias_or_name) for one in relation_nodes(scope.expression))
    return [source for source in sources if isinstance(source, exp.Table)]
