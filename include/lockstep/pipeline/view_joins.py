"""The inner joins of a view that always find a row: LEFT JOINs, which may not drop a fact."""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from lockstep.pipeline.catalog import Catalog, ForeignKey, TableName
from lockstep.pipeline.query.names import SourceColumn
from lockstep.pipeline.query.tree import conjuncts, relation_nodes
from lockstep.pipeline.view_types import table_of


def left_joins(
    tree: exp.Select, catalog: Catalog, foreign_keys: Sequence[ForeignKey]
) -> Iterable[str]:
    """Change the joins of the outermost SELECT that always find a row; a note for each.

    They do by a foreign key whose columns are NOT NULL, from a row that is always there.
    """
    relations = _Relations(tree)
    there = {relations.first}
    for join in tree.args.get("joins") or ():
        alias = join.this.alias_or_name
        table = relations.table(alias)
        if join.side or join.kind not in ("", "INNER") or table is None:
            continue
        pairs = _equal_columns(join, alias, there)
        if pairs is not None and _always_finds(table, pairs, relations, catalog, foreign_keys):
            join.set("side", "LEFT")
            join.set("kind", "")
            there.add(alias)
            yield (
                f"JOIN {table}: is a LEFT JOIN now, which finds the same rows by a foreign key "
                "that is NOT NULL"
            )


class _Relations:
    """What a SELECT reads, by the names that it has for it: tables, and queries of WITH."""

    def __init__(self, select: exp.Select) -> None:
        nodes = relation_nodes(select)
        self.first = nodes[0].alias_or_name
        self._tables = {one.alias_or_name: one for one in nodes if isinstance(one, exp.Table)}
        self._queries = {one.alias: one for one in select.root().find_all(exp.CTE)}

    def table(self, alias: str) -> TableName | None:
        """The table of the source that a name stands for."""
        node = self._tables.get(alias)
        return None if node is None or self._query(node) else table_of(node)

    def origin(self, alias: str, column: str) -> SourceColumn | None:
        """The table's column whose values a column has, through queries that copy it."""
        node = self._tables.get(alias)
        if node is None:
            return None
        query = self._query(node)
        if query is None:
            return SourceColumn(table_of(node), column)
        copied = _copied(query, column)
        if copied is None:
            return None
        within = _Relations(query.this)
        return within.origin(within.first, copied)

    def _query(self, node: exp.Table) -> exp.CTE | None:
        return None if node.db else self._queries.get(node.name)


def _copied(query: exp.CTE, column: str) -> str | None:
    """The column of its first relation that a query's column is a copy of.

    None of a copy from another relation, of which a row may not be there.
    """
    select = query.this
    if not isinstance(select, exp.Select) or query.args["alias"].columns:
        return None
    found = next((one for one in select.selects if one.alias_or_name == column), exp.Null())
    copied = found.unalias()
    if not isinstance(copied, exp.Column) or not select.args.get("from_"):
        return None
    nodes = relation_nodes(select)
    is_of_first = copied.table == nodes[0].alias_or_name or (not copied.table and len(nodes) == 1)
    return copied.name if is_of_first else None


def _equal_columns(
    join: exp.Join, alias: str, there: Iterable[str]
) -> list[tuple[exp.Column, str]] | None:
    """Columns of what is there, each with the joined one that equals it; None of other joins."""
    pairs = []
    for condition in conjuncts(join.args.get("on")):
        if not isinstance(condition, exp.EQ):
            return None
        own, other = condition.this, condition.expression
        if not isinstance(own, exp.Column) or not isinstance(other, exp.Column):
            return None
        if own.table != alias:
            own, other = other, own
        if own.table != alias or other.table not in there:
            return None
        pairs.append((other, own.name))
    return pairs


def _always_finds(
    table: TableName,
    pairs: Sequence[tuple[exp.Column, str]],
    relations: _Relations,
    catalog: Catalog,
    foreign_keys: Sequence[ForeignKey],
) -> bool:
    if len({one.table for one, _ in pairs}) != 1:
        return False
    equal = {(relations.origin(one.table, one.name), to) for one, to in pairs}
    return any(
        key.refers_to == table
        and {(SourceColumn(key.table, name), to) for name, to in key.columns.items()} == equal
        and not any(catalog.table(key.table).column(name).is_nullable for name in key.columns)
        for key in foreign_keys
    )
