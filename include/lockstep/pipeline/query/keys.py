"""Which columns identify a row of a SELECT, as far as keys and equalities show.

Needed for windows whose result depends on the order of equal rows. No answer means: not known.
"""

from collections.abc import Iterable
from itertools import product

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lockstep.pipeline.query.names import Base, Names, Source, source_of
from lockstep.pipeline.query.tree import conjuncts, relation_nodes

Key = frozenset[tuple[str, str]]
"""Columns of the relations of a SELECT: (alias, column)."""


def row_keys(names: Names, scope: Scope) -> list[Key]:
    """Each identifies a row that the SELECT reads, after its joins, before it groups."""
    select = scope.expression
    first, *joined = relation_nodes(select)
    keys = _of_relation(names, scope, first.alias_or_name)
    for node, join in zip(joined, select.args.get("joins") or (), strict=True):
        if multiplies(names, scope, join):
            added = _of_relation(names, scope, node.alias_or_name)
            keys = [one | other for one, other in product(keys, added)]
    for lateral in select.args.get("laterals") or ():
        keys = [key | place for key in keys for place in _places(lateral)]
    return keys


def multiplies(names: Names, scope: Scope, join: exp.Join) -> bool:
    """Whether a row may find several in the joined relation: unless ON compares a key of it."""
    alias = join.this.alias_or_name
    keys, compared = _of_relation(names, scope, alias), _compared(names, scope, join)
    is_filter = join.kind in ("SEMI", "ANTI")
    return not is_filter and not any(key <= compared for key in keys)


def output_keys(names: Names, source: Source) -> list[frozenset[str]]:
    """Each identifies a row that a relation gives, by its output columns."""
    if isinstance(source, exp.Table):
        key = names.table(source).key
        return [frozenset(name.lower() for name in key)] if key else []
    node = source.expression
    if isinstance(node, exp.SetOperation):
        return [frozenset(node.named_selects)] if node.args.get("distinct") else []
    if node.args.get("distinct"):
        return [frozenset(node.named_selects)]
    group = node.args.get("group")
    wanted = [frozenset(grouped(group))] if group else row_keys(names, source)
    named = {_name(one.unalias()): one.alias_or_name for one in node.selects}
    return [frozenset(named[one] for one in key) for key in wanted if key <= named.keys()]


def grouped(group: exp.Group) -> Iterable[tuple[str, str]]:
    """The columns of GROUP BY; of a computed one a name that no column has."""
    return [_name(one) or ("", one.sql()) for one in group.expressions]


def _of_relation(names: Names, scope: Scope, alias: str) -> list[Key]:
    found = output_keys(names, source_of(scope, alias))
    return [frozenset((alias, column) for column in key) for key in found]


def _name(node: exp.Expr) -> tuple[str, str] | None:
    return (node.table, node.name) if isinstance(node, exp.Column) else None


def _compared(names: Names, scope: Scope, join: exp.Join) -> Key:
    """The joined relation's columns that are equal to a column of another one, or to a constant.

    Without a cast on either side, which could make two keys equal.
    """
    alias, found = join.this.alias_or_name, set()
    for condition in conjuncts(join.args.get("on")):
        if isinstance(condition, exp.EQ):
            sides = (condition.this, condition.expression)
            for one, other in (sides, sides[::-1]):
                if isinstance(one, exp.Column) and one.table == alias:
                    base = names.base(scope, one)
                    if base and not base.is_element and _is_alike(names, scope, base, other, alias):
                        found.add((one.table, one.name))
    return frozenset(found)


def _is_alike(names: Names, scope: Scope, base: Base, other: exp.Expr, alias: str) -> bool:
    """Whether a value of another relation, or a constant, compares with the column as it is."""
    if isinstance(other, exp.Literal):
        kind = names.kind(base.column)
        return kind == ("text" if other.is_string else "integer" if other.is_int else "")
    if not isinstance(other, exp.Column) or other.table == alias:
        return False
    found = names.base(scope, other)
    return found is not None and names.compares(base.column, found)


def _places(lateral: exp.Lateral) -> list[Key]:
    """POSEXPLODE numbers the elements; those of EXPLODE cannot be distinguished."""
    alias = lateral.args["alias"]
    if not isinstance(lateral.this, exp.Posexplode):
        return []
    return [frozenset({(alias.name, alias.columns[0].name)})]
