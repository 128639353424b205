"""Which SQL a pipeline's query may be written in: a list of what is allowed, whatever it means.

These rules hold in every SELECT of the text. What is on the way from the fact to the result has
more of them (path.py), and so have functions (functions.py).
"""

from collections.abc import Callable, Iterator

from sqlglot import exp
from sqlglot.tokens import TokenType

from lockstep.pipeline.errors import QueryRefusedError
from lockstep.pipeline.query.text import SqlText
from lockstep.pipeline.query.tree import has_aggregate, is_derived, span_of

VERSION_COLUMNS = ("at_lsn", "valid_from", "valid_to")
"""What relations carry besides their columns while a query is evaluated."""
_ALLOWED = {
    exp.Select: "with_ expressions from_ joins laterals where group having distinct",
    exp.SetOperation: "with_ this expression distinct",
    exp.With: "expressions",
    exp.CTE: "this alias",
    exp.Group: "expressions",
    exp.Distinct: "expressions",
    exp.Table: "this db alias",
    exp.Subquery: "this alias",
    exp.Join: "this side kind on",
    exp.Lateral: "this view outer alias",
    exp.Window: "this partition_by order spec over",
    exp.Exists: "this expression",
    exp.In: "this expressions query",
}
"""The parts that these nodes may have; sqlglot's names for them."""
_NAMES = {
    "using": ("USING", "write ON a.x = b.x"),
    "method": ("NATURAL JOIN", "write LEFT JOIN … ON a.x = b.x"),
    "limit": ("LIMIT", "rows of all commits are computed together; rank them by ROW_NUMBER"),
    "qualify": ("QUALIFY", "compute the window function in a derived table"),
    "order": ("ORDER BY", "a result has no order; leave it out"),
    "windows": ("WINDOW", "write the window in OVER ( … )"),
    "recursive": ("WITH RECURSIVE", "a recursive query is not supported"),
    "all": ("GROUP BY ALL", "name the columns"),
    "rollup": ("ROLLUP", "write GROUP BY with columns alone"),
    "cube": ("CUBE", "write GROUP BY with columns alone"),
    "grouping_sets": ("GROUPING SETS", "write GROUP BY with columns alone"),
    "on": ("DISTINCT ON", "write DISTINCT, or GROUP BY"),
}
_BEFORE_A_VALUE = {
    *(TokenType.L_PAREN, TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT, TokenType.ON),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.NULLSAFE_EQ),
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
    *(TokenType.BETWEEN, TokenType.WHERE, TokenType.CASE, TokenType.ARROW),
}
_JOINS = {("LEFT", ""), ("LEFT", "OUTER"), ("", ""), ("", "INNER"), ("LEFT", "SEMI")}
_JOINS |= {("LEFT", "ANTI"), ("", "SEMI"), ("", "ANTI")}


def check_shape(text: SqlText, tree: exp.Query) -> None:
    """Raises QueryRefusedError at the first place that is not of the allowed shape."""
    _refuse_reserved(text)
    _refuse_unary_plus(text, tree)
    refused = [node for node in tree.walk() if any(_refusals(text, node))]
    if refused:
        raise next(_refusals(text, min(refused, key=lambda node: span_of(node)[0])))


def _refuse_reserved(text: SqlText) -> None:
    for index, token in enumerate(text.tokens):
        if token.text.lower() in VERSION_COLUMNS and token.token_type.name in ("VAR", "IDENTIFIER"):
            why = f"{token.text} is a column of Lockstep's own in every relation"
            raise text.refused(text.span(index, index), why, "use another name")


def _refuse_unary_plus(text: SqlText, tree: exp.Query) -> None:
    """The tree does not have it, and of a text Spark makes a number by it."""
    signs = [n for n, token in enumerate(text.tokens) if token.token_type is TokenType.PLUS]
    if len(signs) > len(list(tree.find_all(exp.Add))):
        unary = (n for n in signs if n == 0 or text.tokens[n - 1].token_type in _BEFORE_A_VALUE)
        place = next(unary, signs[0])
        why = "a + before a value makes a number of it, unseen here"
        raise text.refused(text.span(place, place), why, "leave it out, or write a CAST")


def _refusals(text: SqlText, node: exp.Expr) -> Iterator[QueryRefusedError]:
    for kind, names in _ALLOWED.items():
        if isinstance(node, kind):
            yield from _of_parts(text, node, names.split())
    for why, remedy in _faults(node):
        yield text.refused(_place(text, node), why, remedy)


def _place(text: SqlText, node: exp.Expr) -> tuple[int, int]:
    first, last = span_of(node.parent if isinstance(node, exp.Star) else node)
    block = text.block_at(first) if isinstance(node, exp.Join) else None
    joins = block.all_of("join") if block else []
    around = [text.clause_span(join) for join in joins]
    return next((one for one in around if one[0] <= first <= one[1]), (first, last))


def _of_parts(text: SqlText, node: exp.Expr, allowed: list[str]) -> Iterator[QueryRefusedError]:
    for name, part in node.args.items():
        if not part or name in allowed:
            continue
        first = part[0] if isinstance(part, list) else part
        shown = first if isinstance(first, exp.Expr) else node
        what, remedy = _NAMES.get(name, (name.upper().strip("_"), ""))
        yield text.refused(_place(text, shown), f"{what} is not supported here", remedy)


def _faults(node: exp.Expr) -> Iterator[tuple[str, str]]:
    """What is wrong with a node, and what to do."""
    for kind, faults in _FAULTS.items():
        if isinstance(node, kind):
            yield from faults(node)


def _grouping_faults(node: exp.Expr) -> Iterator[tuple[str, str]]:
    yield "only plain columns can be grouped by", "write GROUP BY with columns alone"


def _star_faults(node: exp.Star) -> Iterator[tuple[str, str]]:
    if not isinstance(node.parent, exp.Count):
        yield "with `*` a new column of a table would change the result", "name the columns"


def _alias_faults(node: exp.TableAlias) -> Iterator[tuple[str, str]]:
    if node.columns and not isinstance(node.parent, exp.Lateral):
        yield "a list of columns after the name is not supported", "name them in its SELECT"


def _query_faults(node: exp.Select | exp.SetOperation) -> Iterator[tuple[str, str]]:
    if isinstance(node, exp.Select) and not node.args.get("from_"):
        yield "a SELECT without FROM is not supported", "compute the value where it is needed"
    if isinstance(node, exp.SetOperation):
        for side in (node.this, node.expression):
            if not isinstance(side, exp.Select | exp.SetOperation):
                yield "a SELECT in parentheses is not supported here", "leave them out"
    allowed = exp.CTE | exp.Subquery | exp.Exists | exp.SetOperation
    if node.parent is not None and not isinstance(node.parent, allowed):
        yield "a query is not supported here", "write EXISTS, IN or a scalar query"
    if isinstance(node, exp.Select):
        yield from _name_faults(node)
        if not node.args.get("group"):
            yield from _one_group_faults(node)


def _name_faults(node: exp.Select) -> Iterator[tuple[str, str]]:
    relations = [node.args.get("from_"), *(node.args.get("joins") or ())]
    names = [one.alias_or_name.lower() for one in relations if one]
    names += [one.alias.lower() for one in node.args.get("laterals") or ()]
    for name in names:
        if names.count(name) > 1:
            yield f"two relations of this SELECT are called {name}", "give one another name"


def _one_group_faults(node: exp.Select) -> Iterator[tuple[str, str]]:
    """An aggregate of everything gives a row also without any input: so in scalar queries alone."""
    if node.args.get("having"):
        yield "HAVING without GROUP BY is not supported", "add GROUP BY"
    is_scalar = isinstance(node.parent, exp.Subquery) and not is_derived(node.parent)
    if has_aggregate(node) and (not is_scalar or isinstance(node.parent.parent, exp.In)):
        why = "an aggregate without GROUP BY makes one row of everything"
        yield why, "add GROUP BY, or write a scalar query in the SELECT list"


def _subquery_faults(node: exp.Subquery) -> Iterator[tuple[str, str]]:
    if node.find_ancestor(exp.Join, exp.Select).__class__ is exp.Join and not is_derived(node):
        yield "a query in a JOIN's condition is not supported", "join it as a derived table"
    if is_derived(node):
        if not node.alias:
            yield "a query in FROM needs a name", "write ( … ) AS a_name"
        return
    yield from _shadow_faults(node)
    if isinstance(node.this, exp.SetOperation):
        yield "UNION, EXCEPT and INTERSECT need a derived table here", "SELECT … FROM ( … ) AS u"


def _exists_faults(node: exp.Exists) -> Iterator[tuple[str, str]]:
    if node.find_ancestor(exp.Join, exp.Select).__class__ is exp.Join:
        yield "a query in a JOIN's condition is not supported", "join it as a derived table"
    yield from _shadow_faults(node)


def _shadow_faults(node: exp.Subquery | exp.Exists) -> Iterator[tuple[str, str]]:
    """The query around is compared with by the name of its first relation."""
    around = node.find_ancestor(exp.Select)
    if around is None or not isinstance(node.this, exp.Select):
        return
    first = around.args["from_"].this.alias_or_name.lower()
    inner = [node.this.args.get("from_"), *(node.this.args.get("joins") or ())]
    inner += node.this.args.get("laterals") or ()
    if first in [one.alias_or_name.lower() for one in inner if one]:
        yield f"{first} is a name of the query around it, too", "give one of them another name"


def _join_faults(node: exp.Join) -> Iterator[tuple[str, str]]:
    yield from _relation_faults(node.this)
    if (node.side, node.kind) not in _JOINS:
        name = f"{node.side} {node.kind} JOIN".strip().replace("  ", " ")
        yield f"{name} is not supported", "write LEFT JOIN … ON, or INNER JOIN … ON"
    elif isinstance(node.args.get("on"), exp.Boolean | None):
        yield "a join without ON multiplies rows unseen", "write JOIN … ON a.x = b.x"


def _relation_faults(node: exp.Expr) -> Iterator[tuple[str, str]]:
    is_table = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
    if not is_table and not isinstance(node, exp.Subquery):
        yield "only tables, WITH queries and ( SELECT … ) AS name may be joined", "see the catalog"
    if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Select | exp.SetOperation):
        yield "joins in parentheses are not supported", "join one relation after the other"


def _lateral_faults(node: exp.Lateral) -> Iterator[tuple[str, str]]:
    alias = node.args.get("alias")
    if not node.args.get("view") or not isinstance(node.this, exp.Explode | exp.Posexplode):
        yield "only LATERAL VIEW with EXPLODE or POSEXPLODE is supported", "use one of them"
    elif len(alias.columns if alias else ()) != (2 if isinstance(node.this, exp.Posexplode) else 1):
        yield "the columns of LATERAL VIEW need names", "… AS place, item for POSEXPLODE, AS item"


_FAULTS: dict[type | tuple[type, ...], Callable[[exp.Expr], Iterator[tuple[str, str]]]] = {
    (exp.Rollup, exp.Cube, exp.GroupingSets): _grouping_faults,
    exp.Star: _star_faults,
    (exp.Select, exp.SetOperation): _query_faults,
    exp.Subquery: _subquery_faults,
    exp.Exists: _exists_faults,
    exp.Join: _join_faults,
    exp.From: lambda node: _relation_faults(node.this),
    exp.TableAlias: _alias_faults,
    exp.Lateral: _lateral_faults,
}
