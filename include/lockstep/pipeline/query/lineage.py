"""Which columns of the source an output column is made of, and which decide the rows it is of."""

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, walk_in_scope

from lockstep.pipeline.query.keys import multiplies
from lockstep.pipeline.query.names import Names, SourceColumn, output, source_of
from lockstep.pipeline.query.tree import is_aggregate, relation_nodes

Columns = frozenset[SourceColumn]
Found = tuple[Columns, Columns]
"""What a value is made of; and what it depends on at all, which holds the first."""
_NOTHING: Found = (frozenset(), frozenset())


class Lineage:
    """The lineage of a query's columns; each output of a WITH query is followed once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[tuple[int, str], Found] = {}

    def of_output(self, scope: Scope, name: str) -> Found:
        """Of an output column of a SELECT or a set operation, by its lower-case name."""
        place = id(scope), name
        if place not in self._known:
            self._known[place] = _NOTHING
            self._known[place] = self._followed(scope, name)
        return self._known[place]

    def _followed(self, scope: Scope, name: str) -> Found:
        node = scope.expression
        if isinstance(node, exp.SetOperation):
            number = node.named_selects.index(name)
            sides = scope.set_operation_scopes
            found = [self.of_output(one, one.expression.named_selects[number]) for one in sides]
            return _joined(found)
        value = output(scope, name)
        made_of, depends = self._of_expression(scope, value)
        is_merged = any(isinstance(one, exp.Window) or is_aggregate(one) for one in value.walk())
        return made_of, depends | self._rows(scope, is_merged)

    def _of_expression(self, scope: Scope, value: exp.Expr) -> Found:
        found = [_NOTHING]
        for node in walk_in_scope(value):
            if isinstance(node, exp.Column):
                found.append(self._of_column(scope, node))
            elif isinstance(node, exp.Select) and (inner := _inner(scope, node)) is not None:
                found.append(self._of_query(inner))
        return _joined(found)

    def _of_query(self, scope: Scope) -> Found:
        """A scalar query, EXISTS or IN: its values, and all that it reads."""
        outputs = [self.of_output(scope, name) for name in scope.expression.named_selects]
        made_of, depends = _joined([_NOTHING, *outputs])
        every = _joined([_NOTHING, *(self._of_column(scope, node) for node in _all(scope))])
        return made_of, depends | every[1]

    def _of_column(self, scope: Scope, column: exp.Column) -> Found:
        source = source_of(scope, column.table)
        if isinstance(source, exp.Table):
            one = frozenset({self._names.source_column(source, column.name)})
            found = one, one
        elif isinstance(source.expression, exp.Lateral):
            found = self._of_expression(source, source.expression.this.this)
        else:
            found = self.of_output(source, column.name)
        return found[0], found[1] | self._of_join(scope, column.table)

    def _of_join(self, scope: Scope, alias: str) -> Columns:
        """What decides which row of a joined relation is there."""
        for join in getattr(scope.expression, "args", {}).get("joins") or ():
            if join.this.alias_or_name == alias:
                others = (one for one in join.args["on"].find_all(exp.Column))
                return self._depends(scope, others, alias)
        return frozenset()

    def _depends(self, scope: Scope, columns: Iterator[exp.Column], alias: str = "") -> Columns:
        """alias: of a relation that is being followed already."""
        found: Columns = frozenset()
        for column in columns:
            if column.table != alias:
                found |= self._of_column(scope, column)[1]
            elif isinstance(source := source_of(scope, alias), exp.Table):
                found |= {self._names.source_column(source, column.name)}
            else:
                found |= self.of_output(source, column.name)[1]
        return found

    def _rows(self, scope: Scope, is_merged: bool) -> Columns:
        """What decides which rows a SELECT has; is_merged: for a value that is made of several.

        The columns of GROUP BY are left out: the rows of a group are found by them, so that they
        come with the condition that joins the groups, or are in the result's key.
        """
        select = scope.expression
        if isinstance(select, exp.SetOperation):
            sides = scope.set_operation_scopes
            return frozenset().union(*(self._rows(one, is_merged) for one in sides))
        parts = [select.args.get("where"), select.args.get("having")]
        for join in select.args.get("joins") or ():
            is_filter = join.side != "LEFT" or join.kind in ("SEMI", "ANTI")
            if is_filter or (is_merged and multiplies(self._names, scope, join)):
                parts.append(join.args["on"])
        parts += [one.this for one in select.args.get("laterals") or () if is_merged]
        found: Columns = frozenset()
        for part in filter(None, parts):
            columns = (node for node in walk_in_scope(part) if isinstance(node, exp.Column))
            found |= self._depends(scope, columns)
        for source in _queries_in(scope) if is_merged else ():
            found |= self._rows(source, is_merged)
        return found


def _queries_in(scope: Scope) -> Iterator[Scope]:
    """The queries that a SELECT reads like tables."""
    for node in relation_nodes(scope.expression):
        source = source_of(scope, node.alias_or_name)
        if isinstance(source, Scope):
            yield source


def _joined(found: list[Found]) -> Found:
    return (
        frozenset().union(*(one for one, _ in found)),
        frozenset().union(*(one for _, one in found)),
    )


def _inner(scope: Scope, node: exp.Select) -> Scope | None:
    return next((one for one in scope.subquery_scopes if one.expression is node), None)


def _all(scope: Scope) -> Iterator[exp.Column]:
    return (node for node in walk_in_scope(scope.expression) if isinstance(node, exp.Column))
