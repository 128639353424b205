"""A query's text for Spark: over one snapshot, or as of many commits in one run.

The author's text is kept character by character, and what is needed is inserted: Spark computes
what the author wrote, and each place of the result leads back to the author's file.

What Spark is given for many commits:
- a view `schema.table` (one name, with the dot) of each relation: the columns that the query reads,
  with the bigints valid_from and valid_to, between which a version was the truth, half-open;
- a view `at` of the fact's key and at_lsn: each touched key with each commit that touched it.

at_lsn goes through the query as a tenant's id goes through tables of many tenants. The first
relation of each SELECT has it: the fact by its key in `at`, another table at all points, a query
from inside. A table that is joined takes its versions by valid_from <= at_lsn < valid_to, so that
its join stays one by the author's equality; only tables that stand first in FROM, aside of the
fact, are multiplied by the points. Queries are joined by at_lsn, and GROUP BY, PARTITION BY, the
SELECT list (with DISTINCT and UNION) and the condition of EXISTS, IN and scalar queries hold it.

A point need not be a commit: for what snapshots saw, which is no prefix of the log, number the
snapshots, and give each row that number p saw the validity [p, p + 1).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope
from sqlglot.tokens import TokenType

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import Position, QueryRefusedError
from lockstep.pipeline.names import quoted
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.query.names import source_of
from lockstep.pipeline.query.text import Clause, Edit, EditedText, SqlText
from lockstep.pipeline.query.tree import (
    author_alias,
    author_span,
    block_of,
    is_derived,
    relation_nodes,
)

AT = "at"
"""The relation of keys and points."""
AT_LSN = "at_lsn"
_POINTS = "`at points`"
_PLACE = re.compile(r"line (\d+),? pos (\d+)")
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Rewritten:
    """text: what Spark runs. It gives the author's columns, and at_lsn last if of many commits."""

    text: str
    _query: Query
    _edited: EditedText

    def reads(self, view: str) -> bool:
        """Whether the text reads a view, whose name is as SQL has it."""
        return re.search(rf"(?<!\w){re.escape(view)}(?![\w`])", self.text) is not None

    def author_position(self, message: str) -> Position | None:
        """Where in the author's file a message of Spark points; None when that cannot be known.

        By its last "line 3, pos 7" (or "line 3 pos 7"), exact in the author's text, and the place
        of the insertion in what was inserted; without one, by the first name in backquotes that is
        in the author's text once.
        """
        places = _PLACE.findall(message)
        if places:
            line, pos = map(int, places[-1])
            lines = self.text.splitlines(keepends=True)
            if line > len(lines):
                return None
            offset = sum(map(len, lines[: line - 1])) + pos
            return self._query.names.text.position(self._edited.original_offset(offset))
        return _position_of_name(self._query.names.text, message)

    def refused(self, message: str) -> QueryRefusedError:
        """What Spark refuses, as an error at its place in the author's file."""
        names = self._query.names
        position = self.author_position(message) or names.text.position(0)
        text = self._query.sql.splitlines()[position.line - 1]
        return QueryRefusedError(
            self._query.file, position, text.strip(), why=f"Spark refuses it: {message}"
        )


def at_snapshot(query: Query) -> Rewritten:
    """The author's query over one snapshot: the plain text, with the names of the bound views."""
    return _edited(query, _table_edits(query, first_of_all=False))


def at_rewrite(query: Query, *, finds_facts: bool = True) -> Rewritten:
    """The author's query as of each (key, at_lsn) of `at`, evaluated in one run.

    finds_facts: the text joins `at` with the fact's versions; otherwise the caller binds the view
    facts_view(query), the fact's columns and at_lsn of each point, which saves Spark that join.
    Guarantee: for each point p, the rows with at_lsn p are those of the plain query over the
    versions valid at p, of the keys that `at` has with p.
    """
    edits = [*_bindings(query, finds_facts=finds_facts), *_table_edits(query, first_of_all=True)]
    for scope in query.names.scopes:
        if isinstance(scope.expression, exp.Select):
            edits += _SelectEdits(query, scope).all()
    return _edited(query, edits)


def view_name(table: TableName) -> str:
    """The name of the bound view, as SQL has it."""
    return quoted(str(table))


def _edited(query: Query, edits: list[Edit]) -> Rewritten:
    edited = EditedText.of(query.sql, edits)
    return Rewritten(edited.text, query, edited)


def _position_of_name(text: SqlText, message: str) -> Position | None:
    for name in _QUOTED.findall(message):
        found = [token for token in text.tokens if token.text.lower() == name.lower()]
        if len(found) == 1:
            return text.position(found[0].start)
    return None


def facts_view(query: Query) -> str:
    """The name of the view of the fact's rows at each point, as SQL has it."""
    return _bound(query.fact)


def _bindings(query: Query, *, finds_facts: bool) -> list[Edit]:
    """The WITH queries that give the first tables their points, before the author's own."""
    first = query.names.text.tokens[0]
    texts = [_fact_binding(query)] if finds_facts else []
    others = sorted(_multiplied(query))
    if others:
        texts.append(f"{_POINTS} AS (SELECT DISTINCT {AT_LSN} FROM {AT})")  # noqa: S608
        texts += [_binding(query, table) for table in others]
    if not texts:
        return []
    bindings = ",\n".join(texts)
    if first.text.upper() == "WITH":
        return [Edit(first.end + 1, first.end + 1, f" {bindings},\n")]
    return [Edit(first.start, first.start, f"WITH {bindings}\n")]


def _fact_binding(query: Query) -> str:
    names = map(quoted, query.fact_key)
    keys = " AND ".join(f"{AT}.{name} = version.{name}" for name in names)
    return _at_points(query, query.fact, AT, AT, f"{keys} AND ")


def _binding(query: Query, table: TableName) -> str:
    return _at_points(query, table, f"{_POINTS} AS points", "points", "")


def _at_points(query: Query, table: TableName, points: str, alias: str, keys: str) -> str:
    """A table's rows at each point of a relation; its columns are those that the query reads."""
    return (
        f"{_bound(table)} AS (SELECT {_columns(query, table)}, {alias}.{AT_LSN} "  # noqa: S608
        f"FROM {points} INNER JOIN {view_name(table)} AS version "
        f"ON {keys}{_is_valid('version', f'{alias}.{AT_LSN}')})"
    )


def _columns(query: Query, table: TableName) -> str:
    (relation,) = (one for one in query.relations if one.table == table)
    columns = (f"version.{quoted(name)}" for name in relation.columns)
    return ", ".join(columns) or "1 AS `nothing read`"


def _is_valid(alias: str, point: str) -> str:
    return f"{alias}.valid_from <= {point} AND {point} < {alias}.valid_to"


def _bound(table: TableName) -> str:
    """The relation of a table's rows at each point."""
    return quoted(f"{table} at")


def _multiplied(query: Query) -> set[TableName]:
    """The tables that stand first in FROM, but for the fact."""
    return {query.names.table(node).name for node, is_first in _tables(query) if is_first} - {
        query.fact
    }


def _tables(query: Query) -> Iterator[tuple[exp.Table, bool]]:
    """Every use of a table, and whether it is the first relation of its SELECT."""
    for scope in query.names.scopes:
        if isinstance(scope.expression, exp.Select):
            for number, node in enumerate(relation_nodes(scope.expression)):
                if isinstance(source_of(scope, node.alias_or_name), exp.Table):
                    yield node, number == 0


def _table_edits(query: Query, *, first_of_all: bool) -> list[Edit]:
    """The views in place of the tables; first_of_all: those of all points where they are needed."""
    edits = []
    for node, is_first in _tables(query):
        table = query.names.table(node).name
        start, end = author_span(node)
        name = _bound(table) if first_of_all and is_first else view_name(table)
        alias, is_aliased = author_alias(node)
        new = name if is_aliased else f"{name} AS {alias}"
        edits.append(Edit(start, end + 1, new))
    return edits


class _SelectEdits:
    """What is inserted into one SELECT."""

    def __init__(self, query: Query, scope: Scope) -> None:
        self._query, self._scope = query, scope
        self._select, self._text = scope.expression, query.names.text
        self._block = block_of(self._text, self._select)
        self._point = _point(self._select)

    def all(self) -> Iterator[Edit]:
        yield from self._joins()
        yield from self._windows()
        yield from self._groups()
        if self._is_compared:
            yield from self._condition()
        else:
            yield self._insert(self._block.all_of("select")[0].last, f", {self._point}")

    @property
    def _is_compared(self) -> bool:
        """Whether it is an EXISTS, an IN or a scalar query, whose columns are the author's."""
        around = self._select.parent
        is_value = isinstance(around, exp.Subquery) and not is_derived(around)
        return isinstance(around, exp.Exists) or is_value

    def _joins(self) -> Iterator[Edit]:
        clauses = self._block.all_of("join")
        joins = self._select.args.get("joins") or ()
        for join, clause in zip(joins, clauses, strict=True):
            alias, _ = author_alias(join.this)
            condition = f"{alias}.{AT_LSN} = {self._point}"
            if isinstance(source_of(self._scope, join.this.alias_or_name), exp.Table):
                condition = _is_valid(alias, self._point)
            yield from self._also(self._on(clause), clause.last, condition, join.args["on"])

    def _on(self, join: Clause) -> int:
        """The token ON of a join, behind a relation that may be a query in parentheses."""
        index = join.first
        while self._text.word(index) != "on":
            index = self._text.closing.get(index, index) + 1
        return index

    def _condition(self) -> Iterator[Edit]:
        outer = self._select.find_ancestor(exp.Select)
        condition = f"{self._point} = {_point(outer)}"
        for where in self._block.all_of("where"):
            yield from self._also(
                where.first, where.last, condition, self._select.args["where"].this
            )
            return
        yield self._insert(self._block.last_before_group(), f" WHERE {condition}")

    def _also(self, start: int, last: int, added: str, condition: exp.Expr) -> Iterator[Edit]:
        """A condition in addition to that behind the token `start`: OR binds less than AND."""
        is_plain = isinstance(condition, exp.And | exp.EQ | exp.Paren)
        if not is_plain:
            after = self._text.tokens[start].end + 1
            yield Edit(after, after, " (")
        yield self._insert(last, f"{'' if is_plain else ')'} AND {added}")

    def _groups(self) -> Iterator[Edit]:
        for group in self._block.all_of("group"):
            yield self._insert(group.last, f", {self._point}")

    def _windows(self) -> Iterator[Edit]:
        for opening in self._text.overs(self._block):
            if self._text.tokens[opening + 1].token_type is TokenType.PARTITION_BY:
                yield self._insert(opening + 1, f" {self._point},")
            else:
                yield self._insert(opening, f"PARTITION BY {self._point} ")

    def _insert(self, last: int, text: str) -> Edit:
        after = self._text.tokens[last].end + 1
        return Edit(after, after, text)


def _point(select: exp.Select) -> str:
    """The at_lsn that a SELECT's rows are of: that of its first relation, which is never null."""
    alias, _ = author_alias(select.args["from_"].this)
    return f"{alias}.{AT_LSN}"
