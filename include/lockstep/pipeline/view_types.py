"""The types of a view's expressions, as far as the catalog knows them, by PostgreSQL's names."""

import re

from sqlglot import exp

from lockstep.pipeline.catalog import Catalog, TableName

INSTANT, DATE = "timestamp with time zone", "date"
_CASTS = {exp.DType.TIMESTAMPTZ: INSTANT, exp.DType.DATE: DATE}
_TEXT = re.compile(r"text|character varying(\(\d+\))?")
_SAME = (exp.Coalesce, exp.Greatest, exp.Least)
"""Functions whose value has the type that all of their arguments have."""


class ViewTypes:
    """The tables of a view, by the names that the view has for them."""

    def __init__(self, tree: exp.Expr, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[str, TableName | None] = {}
        for node in tree.find_all(exp.Table):
            name, table = node.alias_or_name, table_of(node)
            is_other = self._tables.get(name, table) != table
            self._tables[name] = None if is_other else table

    def of(self, node: exp.Expr) -> str | None:
        """Of an expression, without its domains; None where it is not known."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return self._of_column(node)
        if isinstance(node, exp.Cast):
            return _CASTS.get(node.to.this) or self.plain(node.to.sql("postgres"))
        if isinstance(node, _SAME):
            found = {self.of(one) for one in (node.this, *node.expressions)}
            return found.pop() if len(found) == 1 else None
        return None

    def plain(self, type_: str) -> str:
        """The type that a domain is over, however many domains lie between."""
        for _ in self._catalog.domains:
            type_ = self._catalog.domains.get(type_, type_)
        return type_

    def is_enum(self, node: exp.Expr) -> bool:
        return self.of(node) in self._catalog.enums

    def is_text(self, node: exp.Expr) -> bool:
        """Whether it is a column of type text or varchar, of any length."""
        found = self.of(node) if isinstance(node, exp.Column) else None
        return found is not None and _TEXT.fullmatch(found) is not None

    def _of_column(self, node: exp.Column) -> str | None:
        tables = self._tables
        name = node.table or (next(iter(tables)) if len(tables) == 1 else "")
        table = tables.get(name)
        known = {one.name: one.columns for one in self._catalog.tables}.get(table, ())
        return next((self.plain(one.type) for one in known if one.name == node.name), None)


def table_of(node: exp.Table) -> TableName:
    """The table that a name means, where it is not that of a WITH query."""
    return TableName(node.db or "public", node.name)
