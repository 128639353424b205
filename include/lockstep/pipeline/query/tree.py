"""The tree that sqlglot makes of a text, and how its nodes are found in the text again."""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError

from lockstep.pipeline.errors import Position, QueryRefusedError
from lockstep.pipeline.query.functions import AGGREGATES
from lockstep.pipeline.query.text import Block, SqlText


def parse_query(text: SqlText) -> exp.Query:
    """The tree of a text that is one SELECT; what it may hold is not looked at yet.

    Raises QueryRefusedError when it is none.
    """
    try:
        found = Spark().parser().parse(text.tokens, text.sql)
    except ParseError as error:
        raise _parse_error(text, error) from error
    statements = [one for one in found if one is not None]
    if len(statements) != 1:
        raise _not_one(text, len(statements))
    (tree,) = statements
    if not isinstance(tree, exp.Select | exp.SetOperation):
        why = f"a pipeline's query is a SELECT, and this is {tree.key.upper()}"
        raise text.refused(text.span(0, 0), why, "write WITH … SELECT …")
    return tree


def mark(text: SqlText, tree: exp.Query) -> None:
    """Note in a tree of the allowed shape what `qualify` writes over: places and names.

    Raises QueryRefusedError when the tokens show other clauses than the tree.
    """
    for select in tree.find_all(exp.Select):
        offsets = [_mark_relation(text, node) for node in relation_nodes(select)]
        select.meta["block"] = _block_at(text, select, offsets[0])
    if len({select.meta["block"] for select in tree.find_all(exp.Select)}) != len(text.blocks):
        why = "the SELECTs of this text cannot be distinguished"
        raise text.refused((0, len(text.sql) - 1), why, "write no name like a word of SQL")


def _mark_relation(text: SqlText, node: exp.Expr) -> int:
    """Returns the offset of its name, which is in the clauses of the SELECT that reads it."""
    alias = node.args["alias"].this if node.args.get("alias") else None
    name = alias or node.this
    start, end = name.meta["start"], name.meta["end"]
    node.meta["author_alias"] = text.sql[start : end + 1]
    node.meta["is_aliased"] = alias is not None
    if isinstance(node, exp.Table):
        parts = [one.meta for one in (node.args.get("db"), node.this) if one]
        node.meta["author_span"] = parts[0]["start"], parts[-1]["end"]
    return start


def relation_nodes(select: exp.Select) -> list[exp.Expr]:
    """What a SELECT reads, in the order of FROM and its joins, without LATERAL VIEW."""
    return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]


def author_span(node: exp.Table) -> tuple[int, int]:
    """The offsets of `table` or `schema.table` in the text."""
    return node.meta["author_span"]


def block_of(text: SqlText, select: exp.Select) -> Block:
    """The clauses of a SELECT in the text."""
    return text.blocks[select.meta["block"]]


def author_alias(node: exp.Expr) -> tuple[str, bool]:
    """A relation's name as the author writes it; and whether it is one besides the table's own."""
    return node.meta["author_alias"], node.meta["is_aliased"]


def span_of(node: exp.Expr) -> tuple[int, int]:
    """The first and the last offset of what is known of a node's place; (0, 0) when nothing is."""
    found = [one._meta for one in node.walk() if one._meta and "start" in one._meta]
    if not found:
        return span_of(node.parent) if node.parent else (0, 0)
    return min(meta["start"] for meta in found), max(meta["end"] for meta in found)


def is_derived(node: exp.Expr) -> bool:
    """A query in FROM or JOIN, and no scalar one."""
    return isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join)


def conjuncts(condition: exp.Expr | None) -> Sequence[exp.Expr]:
    """The conditions that must all hold."""
    if condition is None:
        return ()
    condition = condition.this if isinstance(condition, exp.Where) else condition
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition.unnest()]


def has_aggregate(select: exp.Select) -> bool:
    """Whether a SELECT's own rows are aggregated."""
    parts = [*select.expressions, *filter(None, [select.args.get("having")])]
    found = (one for part in parts for one in part.walk() if is_aggregate(one))
    return any(
        one.find_ancestor(exp.Select) is select and not isinstance(_around(one), exp.Window)
        for one in found
    )


def is_aggregate(node: exp.Expr) -> bool:
    """Those that sqlglot does not know are known by their names."""
    is_named = isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES
    return is_named or isinstance(node, exp.AggFunc)


def _around(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return parent


def _block_at(text: SqlText, select: exp.Select, offset: int) -> int:
    """Raises QueryRefusedError when tokens and tree see different clauses."""
    block = text.block_at(offset)
    for kind, part in (("join", "joins"), ("lateral", "laterals"), ("where", "where")):
        written = len(block.all_of(kind)) if block else -1
        parsed = select.args.get(part) or []
        if written != (len(parsed) if isinstance(parsed, list) else 1):
            why = f"the {kind.upper()} clauses of this SELECT cannot be distinguished"
            raise text.refused(span_of(select), why, "write its clauses in their usual order")
    return next(number for number, one in enumerate(text.blocks) if one is block)


def _parse_error(text: SqlText, error: ParseError) -> QueryRefusedError:
    """sqlglot counts columns to the end of the word."""
    first = error.errors[0] if error.errors else {}
    line, word = first.get("line") or 1, first.get("highlight") or ""
    column = max((first.get("col") or 1) - len(word) + 1, 1)
    why = (first.get("description") or str(error)).rstrip(".")
    position = Position(line, column)
    return QueryRefusedError(text.file, position, word or text.sql, why=f"no SQL of Spark: {why}")


def _not_one(text: SqlText, count: int) -> QueryRefusedError:
    if count == 0:
        return QueryRefusedError(text.file, Position(1, 1), "", why="there is no SELECT in it")
    semicolon = [token.text for token in text.tokens].index(";")
    place = text.span(semicolon + 1, len(text.tokens) - 1)
    why = f"a pipeline's query is one statement, and there are {count}"
    return text.refused(place, why, "use WITH for what comes first")
