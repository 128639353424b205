"""The way from the fact to the result, for semantics as_of_commit: nothing may drop the fact.

The fact is reached from the last SELECT by FROM alone: through WITH queries and derived tables,
each with LEFT JOINs and LATERAL VIEW OUTER. Rows of different facts never meet on this way: groups
and windows are within the fact's key. So the query over the touched facts alone is right, and each
fact has its rows at every commit. Aside of this way, filters and inner joins are allowed.
"""

from collections.abc import Iterable

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.query.functions import DETERMINED, WINDOW_ORDERED, is_windowed
from lockstep.pipeline.query.keys import grouped, row_keys
from lockstep.pipeline.query.names import Names, SourceColumn, source_of
from lockstep.pipeline.query.text import Call
from lockstep.pipeline.query.tree import has_aggregate, relation_nodes, span_of

_DROPS = "could drop a fact, and what is not in the result cannot be compared"


def path_from_fact(names: Names, fact: TableName) -> list[Scope]:
    """The SELECTs from the fact's own to the last, which may hold nothing that drops a fact.

    Raises QueryRefusedError when the fact is not the first relation of this way, or is used twice.
    """
    path, node = _follow(names, fact)
    others = [use for use in _uses(names, path, fact) if use is not node]
    if others:
        why = f"the fact {fact} is used twice, so its rows could meet"
        raise names.text.refused(span_of(others[0]), why, "read it once, first in FROM")
    for scope in path:
        _check_select(names, scope, fact)
    return path


def check_windows(names: Names, path: list[Scope], fact: TableName) -> None:
    """Raises QueryRefusedError at the first window or FIRST that equal rows could change."""
    for scope in names.scopes:
        if not isinstance(scope.expression, exp.Select):
            continue
        for window in scope.find_all(exp.Window):
            if scope in path:
                _check_partition(names, scope, window, fact)
            _check_order(names, scope, window)
    for call in names.text.calls():
        if call.name in DETERMINED and not is_windowed(names.text, call):
            _check_determined(names, path, call, fact)


def _uses(names: Names, path: list[Scope], fact: TableName) -> list[exp.Expr]:
    """Where the fact, or a query on its way, is a relation; but for the way itself."""
    on_the_way = [relation_nodes(scope.expression)[0] for scope in path[1:]]
    found = []
    for scope in names.scopes:
        for node in relation_nodes(scope.expression) if scope.expression.key == "select" else ():
            source = source_of(scope, node.alias_or_name)
            is_fact = isinstance(source, exp.Table) and names.table(source).name == fact
            if is_fact or (
                any(source is one for one in path) and all(node is not one for one in on_the_way)
            ):
                found.append(node)
    return sorted(found, key=lambda node: span_of(node)[0])


def _follow(names: Names, fact: TableName) -> tuple[list[Scope], exp.Table]:
    path, scope = [], names.root
    while True:
        if not isinstance(scope.expression, exp.Select):
            why = "UNION, EXCEPT and INTERSECT would drop facts or mix them"
            place = span_of(scope.expression)
            raise names.text.refused(place, why, "use them in a derived table of other tables")
        path.append(scope)
        node = relation_nodes(scope.expression)[0]
        source = source_of(scope, node.alias_or_name)
        if not isinstance(source, exp.Table):
            scope = source
            continue
        if names.table(source).name != fact:
            why = (
                f"the result's rows come from {names.table(source).name}, not from the fact {fact}"
            )
            raise names.text.refused(span_of(node), why, f"begin with FROM {fact.name}")
        return path[::-1], source


def _check_select(names: Names, scope: Scope, fact: TableName) -> None:
    select = scope.expression
    for name in ("where", "having"):
        if part := select.args.get(name):
            _refuse_clause(names, part, f"{name.upper()} {_DROPS}", "use CASE or a LEFT JOIN's ON")
    for join in select.args.get("joins") or ():
        if join.side != "LEFT" or join.kind in ("SEMI", "ANTI"):
            name = f"{join.side} {join.kind or 'INNER'} JOIN".strip()
            _refuse_clause(names, join, f"{name} {_DROPS}", "write LEFT JOIN")
    for lateral in select.args.get("laterals") or ():
        if not lateral.args.get("outer"):
            why = f"LATERAL VIEW without OUTER {_DROPS}: its array may be empty"
            _refuse_clause(names, lateral, why, "write LATERAL VIEW OUTER")
    _check_groups(names, scope, fact)


def _refuse_clause(names: Names, node: exp.Expr, why: str, remedy: str) -> None:
    """Shown from the clause's first word on."""
    first, last = span_of(node)
    block = names.text.block_at(first)
    around = [names.text.clause_span(clause) for clause in block.clauses] if block else []
    place = next((one for one in around if one[0] <= first <= one[1]), (first, last))
    raise names.text.refused(place, why, remedy)


def _check_groups(names: Names, scope: Scope, fact: TableName) -> None:
    """GROUP BY and DISTINCT keep facts apart."""
    select = scope.expression
    group = select.args.get("group")
    if group and not _has_key(names, scope, group.expressions, fact):
        why = f"these groups do not hold the key of {fact}, so facts would be merged"
        raise names.text.refused(span_of(group), why, _key_remedy(names, fact, "GROUP BY"))
    if not group and has_aggregate(select):
        why = "an aggregate without GROUP BY merges all facts"
        raise names.text.refused(span_of(select), why, _key_remedy(names, fact, "GROUP BY"))
    outputs = [one.unalias() for one in select.selects]
    if select.args.get("distinct") and not _has_key(names, scope, outputs, fact):
        why = f"DISTINCT without the key of {fact} merges facts"
        raise names.text.refused(span_of(select), why, _key_remedy(names, fact, "SELECT"))


def _has_key(names: Names, scope: Scope, nodes: Iterable[exp.Expr], fact: TableName) -> bool:
    bases = [names.base(scope, node) for node in nodes]
    held = {base.column for base in bases if base is not None and not base.is_element}
    return {SourceColumn(fact, column) for column in names.catalog.table(fact).key} <= held


def _key_remedy(names: Names, fact: TableName, where: str) -> str:
    return f"add {', '.join(names.catalog.table(fact).key)} of {fact.name} to {where}"


def _check_partition(names: Names, scope: Scope, window: exp.Window, fact: TableName) -> None:
    if not _has_key(names, scope, window.args.get("partition_by") or (), fact):
        why = f"this window reaches over rows of several {fact.name}"
        raise names.text.refused(span_of(window), why, _key_remedy(names, fact, "PARTITION BY"))


def _check_order(names: Names, scope: Scope, window: exp.Window) -> None:
    function = window.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function = function.this
    first, last = span_of(function)
    name = names.text.sql[first : last + 1].split("(")[0].strip().lower()
    spec = window.args.get("spec")
    is_by_rows = spec is not None and spec.args.get("kind") == "ROWS"
    if name not in WINDOW_ORDERED and not is_by_rows:
        return
    order = window.args.get("order")
    parts = [*(window.args.get("partition_by") or ()), *(one.this for one in order or ())]
    columns = {(one.table, one.name) for one in parts if isinstance(one, exp.Column)}
    group = scope.expression.args.get("group")
    keys = [frozenset(grouped(group))] if group else row_keys(names, scope)
    if not any(key <= columns for key in keys):
        known = " or ".join(sorted(", ".join(".".join(one) for one in sorted(key)) for key in keys))
        why = "rows that are equal by this ORDER BY may come in any order"
        raise names.text.refused(
            span_of(window), why, f"end it with {known}" if known else "end it with a key"
        )


def _check_determined(names: Names, path: list[Scope], call: Call, fact: TableName) -> None:
    """ANY_VALUE of the fact's own columns, where each group is of one fact."""
    place = names.text.span(call.first, call.last)
    for scope in path:
        for node in scope.find_all(
            exp.AnyValue, exp.First, exp.FirstValue, exp.Last, exp.LastValue
        ):
            is_this = place[0] <= span_of(node)[0] <= place[1]
            base = names.base(scope, node.this)
            if is_this and base and base.column.table == fact and not base.is_element:
                return
    why = f"{call.name} takes any of the values, another each time"
    raise names.text.refused(place, why, "add the column to GROUP BY, or write MAX")
