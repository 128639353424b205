"""What the names of a query mean: its tables and columns in the catalog, and where values are from.

Works on the tree that sqlglot's `qualify` has made of a text of the allowed shape.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, ScopeType, traverse_scope, walk_in_scope

from lockstep.pipeline.catalog import Catalog, Table, TableName
from lockstep.pipeline.errors import meant
from lockstep.pipeline.query.text import SqlText
from lockstep.pipeline.query.tree import is_derived, relation_nodes, span_of

Source = exp.Table | Scope
_INTEGERS = {"smallint", "integer", "bigint"}
_TEXTS = {"text", "character varying"}
_FLOATS = {"real", "double precision"}
_NUMERIC = re.compile(r"numeric\((\d+)(?:,(\d+))?\)")
_DIGITS_MAX = 38
"""Of a decimal in Spark; a comparison of two that need more loses digits behind the point."""


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of a table of the source, as the catalog spells it."""

    table: TableName
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True)
class Base:
    """The column that a value is copied from; is_element: an element of that array."""

    column: SourceColumn
    is_element: bool = False


@dataclass
class Names:
    """A query's scopes, innermost first, with the tables that they name."""

    text: SqlText
    catalog: Catalog
    scopes: list[Scope] = field(default_factory=list)

    @property
    def root(self) -> Scope:
        return self.scopes[-1]

    def table(self, node: exp.Table) -> Table:
        """The catalog's table. Raises QueryRefusedError when it has none of this name."""
        wanted = TableName(node.db or "public", node.name)
        for table in self.catalog.tables:
            if _folded(table.name) == _folded(wanted):
                return table
        known = [str(table.name) for table in self.catalog.tables]
        why = f"source {self.catalog.source} has no table {wanted}"
        raise self.text.refused(span_of(node), why, meant(str(wanted), known))

    def source_column(self, node: exp.Table, name: str) -> SourceColumn:
        table = self.table(node)
        column = next(one.name for one in table.columns if one.name.lower() == name.lower())
        return SourceColumn(table.name, column)

    def compares(self, column: SourceColumn, other: Base) -> bool:
        """Whether Spark finds the two equal as the source does: no cast makes other values."""
        kinds = self.kind(column), self.kind(other.column, is_element=other.is_element)
        types = self._type(column), self._type(other.column)
        numerics = [_NUMERIC.match(type_) for type_ in types]
        if kinds[0] == "numeric" and not all(numerics):
            return types[0] == types[1]
        if all(numerics):
            digits = [(int(one[1]), int(one[2] or 0)) for one in numerics if one]
            before = max(precision - scale for precision, scale in digits)
            if before + max(scale for _, scale in digits) > _DIGITS_MAX:
                return False
        return kinds[0] == kinds[1]

    def _type(self, column: SourceColumn) -> str:
        return self.catalog.table(column.table).column(column.column).type

    def kind(self, column: SourceColumn, *, is_element: bool = False) -> str:
        """Types of one kind are equal as the source's values are; floats only as no other is."""
        type_ = re.sub(r"\(.*?\)", "", self._type(column))
        type_ = type_.removesuffix("[]") if is_element else type_
        if type_ in _FLOATS:
            return f"{column} of floats"
        return "integer" if type_ in _INTEGERS else "text" if type_ in _TEXTS else type_

    def base(self, scope: Scope, node: exp.Expr) -> Base | None:
        """What a value is a copy of: through queries and explode. None of a computed value."""
        if not isinstance(node, exp.Column):
            return None
        source = source_of(scope, node.table)
        if isinstance(source, exp.Table):
            return Base(self.source_column(source, node.name))
        lateral = source.expression
        if isinstance(lateral, exp.Lateral):
            array = self.base(source, lateral.this.this)
            is_place = node.name != lateral.args["alias"].columns[-1].name
            return None if is_place or array is None else Base(array.column, is_element=True)
        if not isinstance(source.expression, exp.Select):
            return None
        return self.base(source, output(source, node.name))


def resolve(text: SqlText, tree: exp.Query, catalog: Catalog) -> Names:
    """The scopes of a query whose every name is known; `tree` is qualified in place.

    Raises QueryRefusedError at the first table or column that the catalog does not have.
    """
    names = Names(text, catalog)
    normalize_identifiers(tree, dialect="spark")
    known = _schema(names, tree)
    try:
        qualify(
            tree,
            dialect="spark",
            db="public",
            schema=known,
            validate_qualify_columns=False,
            allow_partial_qualification=True,
            quote_identifiers=False,
        )
    except OptimizeError as error:
        raise text.refused((0, len(text.sql) - 1), str(error)) from error
    names.scopes = list(traverse_scope(tree))
    for scope in names.scopes:
        _check_columns(names, scope)
    return names


def _schema(names: Names, tree: exp.Query) -> dict[str, dict[str, dict[str, str]]]:
    """Columns by schema and table for sqlglot; it needs no types."""
    tables = [node for scope in traverse_scope(tree) for node in _tables_of(scope)]
    known: dict[str, dict[str, dict[str, str]]] = {}
    for node in sorted(tables, key=lambda node: span_of(node)[0]):
        columns = [column.name for column in names.table(node).columns]
        known.setdefault(node.db or "public", {})[node.name] = dict.fromkeys(columns, "string")
    return known


def source_of(scope: Scope, alias: str) -> Source | None:
    """The relation that a column's table names: of this SELECT, or of one around it."""
    current: Scope | None = scope
    while current is not None:
        found = visible_in(current).get(alias)
        if found is not None:
            return found
        current = current.parent if sees_outside(current) else None
    return None


def visible_in(scope: Scope) -> dict[str, Source]:
    """The relations that a SELECT reads, or that stand before a LATERAL VIEW, by their names."""
    if not isinstance(scope.expression, exp.Select):
        return scope.sources
    laterals = scope.expression.args.get("laterals") or ()
    names = [node.alias_or_name for node in relation_nodes(scope.expression)]
    return {name: scope.sources[name] for name in [*names, *(one.alias for one in laterals)]}


def sees_outside(scope: Scope) -> bool:
    """Whether columns of the query around it may be named in it."""
    return scope.scope_type in (ScopeType.SUBQUERY, ScopeType.UDTF)


def output(scope: Scope, name: str) -> exp.Expr:
    """The expression behind an output column of a SELECT."""
    return next(one.unalias() for one in scope.expression.selects if one.alias_or_name == name)


def own_columns(scope: Scope) -> Iterator[exp.Column]:
    """The columns that a SELECT or LATERAL VIEW names, without those of queries in it."""
    for node in walk_in_scope(scope.expression):
        if isinstance(node, exp.Column):
            yield node


def columns_of(source: Source, names: Names) -> list[str]:
    """What a relation has, lower-case."""
    if isinstance(source, exp.Table):
        return [column.name.lower() for column in names.table(source).columns]
    if isinstance(source.expression, exp.Lateral):
        return [column.name for column in source.expression.args["alias"].columns]
    return source.expression.named_selects


def _folded(name: TableName) -> tuple[str, str]:
    return name.schema.lower(), name.name.lower()


def _tables_of(scope: Scope) -> list[exp.Table]:
    """The tables that a SELECT reads, and not its names of WITH queries."""
    if not isinstance(scope.expression, exp.Select):
        return []
    nodes = (node for node in relation_nodes(scope.expression) if not is_derived(node))
    return [node for node in nodes if scope.sources.get(node.alias_or_name) is node or node.db]


def _check_columns(names: Names, scope: Scope) -> None:
    for column in sorted(own_columns(scope), key=lambda node: span_of(node)[0]):
        if not column.table:
            _refuse_unresolved(names, scope, column)
        source = source_of(scope, column.table)
        if source is None:
            why = f"there is no {column.table} in this SELECT"
            known = list(visible_in(scope))
            raise names.text.refused(span_of(column), why, meant(column.table, known))
        known = columns_of(source, names)
        if column.name.lower() not in known:
            why = f"{column.table} has no column {column.name}"
            raise names.text.refused(span_of(column), why, meant(column.name, known))


def _refuse_unresolved(names: Names, scope: Scope, column: exp.Column) -> None:
    known = {alias: columns_of(one, names) for alias, one in visible_in(scope).items()}
    having = [alias for alias, columns in known.items() if column.name.lower() in columns]
    if having:
        why = f"{' and '.join(having)} have a column of this name"
        raise names.text.refused(span_of(column), why, f"write {having[0]}.{column.name}")
    everything = sorted({name for columns in known.values() for name in columns})
    why = f"no relation of this SELECT has a column {column.name}"
    raise names.text.refused(span_of(column), why, meant(column.name, everything))
