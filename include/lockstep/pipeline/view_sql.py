"""A view's query from PostgreSQL's SQL to Spark's: what is written otherwise, and what is marked.

`LOOK AT` is a comment where the two may give other values, `TO CORRECT` one at what Spark does not
have. Joins that become LEFT JOINs are from_view's.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlglot import Dialect, ErrorLevel, exp

from lockstep.pipeline.catalog import Catalog
from lockstep.pipeline.query.tree import relation_nodes
from lockstep.pipeline.spark_functions import SPARK_FUNCTIONS
from lockstep.pipeline.view_times import times_to_spark
from lockstep.pipeline.view_types import ViewTypes, table_of

LOOK_AT, TO_CORRECT = "LOOK AT", "TO CORRECT"

_TEXT = (exp.DType.TEXT, exp.DType.VARCHAR)
_INTEGERS = ("smallint", "integer", "bigint")
_COMPARED_BY_ORDER = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_CHOSEN_BY_ORDER = (exp.Greatest, exp.Least, exp.Min, exp.Max, exp.Ordered)
_CASTS = {
    *exp.DataType.TEXT_TYPES,
    *(exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.DECIMAL),
    *(exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.UUID),
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.VARBINARY, exp.DType.ARRAY),
}
"""The types that Spark casts to as PostgreSQL does, or refuses at the value."""
_UNLIKE = {
    "date_format": "the letters of a format are others in Spark: 'yyyy-MM-dd HH:mm:ss'",
    "encode": "Spark makes bytes of a text by it: HEX and BASE64 make text of bytes",
    "initcap": "Spark begins a word behind a space only",
    "log": "of one number PostgreSQL's is LOG10, Spark's LN",
    "regexp_replace": "Spark replaces every match, PostgreSQL the first one, without 'g'",
    "size": "of an empty array PostgreSQL's array_length is null, Spark's SIZE 0",
    "to_date": "the letters of a format are others in Spark: 'yyyy-MM-dd'",
    "to_number": "Spark's formats are others",
}
"""Functions that Spark has by the name that sqlglot gives them, and that may differ."""
_OPERATORS = {
    exp.ArrayOverlaps: "Spark has no &&: of arrays write ARRAYS_OVERLAP(a, b)",
    exp.ArrayContainsAll: "Spark has no @>: of arrays write SIZE(ARRAY_EXCEPT(b, a)) = 0",
    exp.ArrayContainedBy: "Spark has no <@: of arrays write SIZE(ARRAY_EXCEPT(a, b)) = 0",
}


class Marks(NamedTuple):
    """notes: an expression, and why to look at it. to_correct: those of what Spark lacks, each with
    its reason alone."""

    notes: list[str]
    to_correct: list[tuple[str, str]]

    def add(self, node: exp.Expr, how: str, why: str) -> None:
        """Mark an expression in its tree, too, as a comment."""
        note = f"{shown(node)}: {why}"
        self.notes.append(note)
        if how == TO_CORRECT:
            self.to_correct.append((note, why))
        node.add_comments([f"{how}: {why}"])


def to_spark(tree: exp.Expr, catalog: Catalog) -> Marks:
    """Change the tree so that Spark's SQL can be written of it; returns what is marked in it."""
    types, marks = ViewTypes(tree, catalog), Marks([], [])
    _write_on(tree, catalog)
    _mark_enum_orders(tree, types, marks)
    _plain_types(tree, catalog, types)
    _simplify_casts(tree, types, marks)
    _plain_lists(tree)
    for node, why in times_to_spark(tree, types):
        marks.add(node, TO_CORRECT, why)
    _mark_casts(tree, marks)
    _mark_divisions(tree, types, marks)
    _mark_functions(tree, marks)
    return marks


def spark_text(tree: exp.Expr, marks: Marks) -> str:
    """query.sql's text. What sqlglot leaves out of its comments stands in lines above."""
    level = ErrorLevel.IGNORE  # what is not supported is marked
    sql = tree.sql("spark", pretty=True, normalize_functions="upper", unsupported_level=level)
    lost = [note for note, why in marks.to_correct if f"{TO_CORRECT}: {why}" not in sql]
    return "".join(f"-- {TO_CORRECT}: {note}\n" for note in lost) + sql + "\n"


def shown(node: exp.Expr) -> str:
    """An expression on a line, for people."""
    return node.sql("spark", comments=False, unsupported_level=ErrorLevel.IGNORE)


def _write_on(tree: exp.Expr, catalog: Catalog) -> None:
    """JOIN … USING (a, b) becomes ON, with an equality for each column.

    PostgreSQL's merged column is that of the left side, in the joins that a pipeline may have; one
    that is named without a relation is named with it.
    """
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or ()
        if any(join.args.get("using") for join in joins):
            merged = _write_on_of(select, catalog)
            for column in list(select.find_all(exp.Column)):
                is_own = column.find_ancestor(exp.Select) is select
                if is_own and not column.table and column.name in merged:
                    column.set("table", exp.to_identifier(merged[column.name]))


def _write_on_of(select: exp.Select, catalog: Catalog) -> dict[str, str]:
    """The relation of each merged column, by its name."""
    merged: dict[str, str] = {}
    relations = [_relation(node, select, catalog) for node in relation_nodes(select)]
    before = relations[:1]
    for join, own in zip(select.args["joins"], relations[1:], strict=True):
        names = [one.name for one in join.args.get("using") or ()]
        left = {name: _first_with(name, before) for name in names}
        if names and join.side in ("", "LEFT") and all(left.values()):
            equal = [
                exp.EQ(this=exp.column(name, left[name]), expression=exp.column(name, own[0]))
                for name in names
            ]
            join.set("using", None)
            join.set("on", exp.and_(*equal))
            merged |= {name: merged.get(name, left[name]) for name in names}
        before.append(own)
    return merged


def _relation(node: exp.Expr, select: exp.Select, catalog: Catalog) -> tuple[str, set[str]]:
    """What a SELECT reads: its name there, and its columns as far as they are known."""
    queries = {one.alias: one.this for one in select.root().find_all(exp.CTE)}
    if isinstance(node, exp.Subquery):
        columns = set(node.this.named_selects)
    elif isinstance(node, exp.Table) and not node.db and node.name in queries:
        columns = set(queries[node.name].named_selects)
    else:
        known = {one.name: one.columns for one in catalog.tables}
        found = known.get(table_of(node), ()) if isinstance(node, exp.Table) else ()
        columns = {one.name for one in found}
    return node.alias_or_name, columns


def _first_with(column: str, relations: Iterable[tuple[str, set[str]]]) -> str | None:
    return next((name for name, columns in relations if column in columns), None)


def _mark_enum_orders(tree: exp.Expr, types: ViewTypes, marks: Marks) -> None:
    why = "an enum: PostgreSQL goes by the order of its labels, Spark by their text"
    for node in list(tree.find_all(*_COMPARED_BY_ORDER, *_CHOSEN_BY_ORDER)):
        if any(types.is_enum(side) for side in node.iter_expressions()):
            marks.add(node, LOOK_AT, why)


def _plain_types(tree: exp.Expr, catalog: Catalog, types: ViewTypes) -> None:
    """An enum is text, a domain what it is over: Spark has neither."""
    for node in list(tree.find_all(exp.DataType)):
        if node.this == exp.DType.NAME:
            node.replace(exp.DataType.build("text", dialect="postgres"))
        if node.this != exp.DType.USERDEFINED:
            continue
        name = node.sql("postgres")
        plain = types.plain(name)
        if plain in catalog.enums:
            node.replace(exp.DataType.build("text", dialect="postgres"))
        elif plain != name:
            node.replace(exp.DataType.build(plain, dialect="postgres"))


def _simplify_casts(tree: exp.Expr, types: ViewTypes, marks: Marks) -> None:
    """PostgreSQL writes the type of each literal, `'?'::text`, `0::numeric`, and compares varchar
    as text, `code::text`."""
    for cast in list(tree.find_all(exp.Cast)):
        value, to = cast.this.unnest(), cast.to
        is_literal, is_plain = isinstance(value, exp.Literal), not to.expressions
        is_string = is_literal and value.is_string
        is_number = is_literal and not value.is_string
        if is_string and is_plain and to.is_type(exp.DType.BPCHAR):
            if isinstance(cast.parent, exp.EQ | exp.NEQ):
                marks.add(cast.parent, LOOK_AT, "of char(n) PostgreSQL ignores blanks at the end")
            cast.replace(value)
        elif (
            (is_string and to.is_type(*exp.DataType.TEXT_TYPES))
            or (is_number and is_plain and to.is_type(exp.DType.DECIMAL))
            or (is_plain and to.is_type(*_TEXT) and types.is_text(value))
        ):
            cast.replace(value)


def _plain_lists(tree: exp.Expr) -> None:
    """PostgreSQL writes `x IN (…)` as `x = ANY (ARRAY[…])`, NOT IN as `x <> ALL (ARRAY[…])`."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ)):
        values = _listed(node.expression)
        if values is None:
            continue
        found = exp.In(this=node.this, expressions=values)
        node.replace(exp.Not(this=found) if isinstance(node, exp.NEQ) else found)


def _listed(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of ANY or ALL (ARRAY[…]), after `=` and `<>` each."""
    is_equal = isinstance(node.parent, exp.EQ)
    if is_equal and isinstance(node, exp.Any):
        array = node.this
    elif not is_equal and isinstance(node, exp.Anonymous) and node.name.upper() == "ALL":
        array = node.expressions[0]
    else:
        return None
    array = array.unnest()
    if isinstance(array, exp.Cast) and isinstance(array.this.unnest(), exp.Array):
        array = array.this.unnest() if array.to.is_type("ARRAY<TEXT>") else array
    return array.expressions if isinstance(array, exp.Array) else None


def _mark_casts(tree: exp.Expr, marks: Marks) -> None:
    for cast in list(tree.find_all(exp.Cast)):
        to, has_size = cast.to, bool(cast.to.expressions)
        is_array = to.this == exp.DType.ARRAY and isinstance(cast.this, exp.Literal)
        if to.this not in _CASTS or is_array:
            what = "text to an array" if is_array else f"to {to.sql('postgres')}"
            marks.add(cast, TO_CORRECT, f"Spark's SQL has no CAST of PostgreSQL's {what}")
        elif to.is_type(exp.DType.DECIMAL) and not has_size:
            marks.add(
                cast,
                LOOK_AT,
                "numeric without precision: write DECIMAL(p, s)",
            )
        elif to.is_type(*exp.DataType.TEXT_TYPES) and has_size:
            marks.add(cast, LOOK_AT, "Spark's CAST cuts no text to a length; write LEFT(x, n)")


def _mark_divisions(tree: exp.Expr, types: ViewTypes, marks: Marks) -> None:
    for division in tree.find_all(exp.Div):
        division.set("typed", False)  # else sqlglot adds a cast
        sides = (division.this.unnest(), division.expression.unnest())
        if all(_may_be_integer(side, types) for side in sides):
            marks.add(division, LOOK_AT, "of integers PostgreSQL drops the rest: write DIV")


def _may_be_integer(node: exp.Expr, types: ViewTypes) -> bool:
    if isinstance(node, exp.Literal):
        return node.is_int
    if isinstance(node, exp.Column):
        return types.of(node) in (None, *_INTEGERS)
    return True


def _mark_functions(tree: exp.Expr, marks: Marks) -> None:
    """What Spark lacks, or has with another meaning. sqlglot passes unknown names through."""
    for node in list(tree.find_all(exp.Func, *_OPERATORS)):
        if isinstance(node, exp.Cast | exp.Extract):
            continue
        text = shown(node)
        name = text[: text.find("(")].lower() if "(" in text else ""
        if type(node) in _OPERATORS:
            marks.add(node, TO_CORRECT, _OPERATORS[type(node)])
        elif name in _UNLIKE:
            marks.add(node, LOOK_AT, _UNLIKE[name])
        elif name.isidentifier() and name not in SPARK_FUNCTIONS:
            marks.add(node, TO_CORRECT, f"Spark has no function {name.upper()}")
        elif unsupported := _unsupported(node):
            marks.add(node, TO_CORRECT, f"Spark does not have all of it: {unsupported}")


def _unsupported(node: exp.Expr) -> str:
    """What sqlglot says that it cannot write of the node itself, and not of those within."""
    own = _messages(node)
    for inner in node.find_all(exp.Func):
        if inner is not node:
            own = [one for one in own if one not in _messages(inner)]
    return " ".join(own)


def _messages(node: exp.Expr) -> list[str]:
    generator = Dialect.get_or_raise("spark").generator(unsupported_level=ErrorLevel.IGNORE)
    generator.generate(node)
    return list(generator.unsupported_messages)
