"""A pipeline made of a view's definition: query.sql in Spark's SQL, and what its manifest may say.

Pure: what the view and its tables are was read before. What cannot be decided here, or must be
looked at by a person, stands as a comment at its place, and is in `notes`. The expressions are
view_sql's.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lockstep.pipeline.catalog import Catalog, ForeignKey, TableName
from lockstep.pipeline.errors import CatalogError, Position, QueryRefusedError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.query.analysis import Query, analyse
from lockstep.pipeline.query.names import Base, SourceColumn
from lockstep.pipeline.query.tree import relation_nodes
from lockstep.pipeline.view_joins import left_joins
from lockstep.pipeline.view_sql import TO_CORRECT, shown, spark_text, to_spark
from lockstep.pipeline.view_types import table_of

_TIMES = ("timestamp", "date")
_LOCAL = "without time zone"
_TO_CORRECT = re.compile(rf"-- {TO_CORRECT}: (?P<of_line>.*)|/\* {TO_CORRECT}: (?P<why>.*?) \*/")
_PLAIN = (Mode.TEMPORAL, Mode.TRANSACTION)
"""The modes that need nothing of the database."""


@dataclass(frozen=True)
class NewPipeline:
    """query and manifest: the texts of query.sql and pipeline.toml. notes: what to look at, and,
    among it, to_correct: what does not work as it is.

    refused: what the analysis of the query refuses first; None when it can be used. grants: SQL
    that an administrator is to run, so that the view can be read.
    """

    query: str
    manifest: str
    notes: tuple[str, ...]
    refused: QueryRefusedError | None = None
    grants: tuple[str, ...] = ()
    to_correct: frozenset[str] = frozenset()


@dataclass(frozen=True)
class View:
    """A view of a source: its name, and its definition in PostgreSQL's SQL."""

    source: str
    name: TableName
    definition: str
    foreign_keys: Sequence[ForeignKey]
    keeps_commit_times: bool


def pipeline_of_view(view: View, catalog: Catalog, file: Path) -> NewPipeline:
    """Make a pipeline of a view.

    file: query.sql, for messages. Raises CatalogError for a definition that cannot be parsed, or
    that reads no table of the catalog.
    """
    try:
        tree = parse_one(view.definition, read="postgres")
    except SqlglotError as error:
        raise CatalogError(
            f"the definition of view {view.name} cannot be parsed: {error}"
        ) from None
    marks = to_spark(tree, catalog)
    notes = list(marks.notes)
    if isinstance(tree, exp.Select) and tree.args.get("from_"):
        notes += left_joins(tree, catalog, view.foreign_keys)
    sql = spark_text(tree, marks)
    fact = _fact(tree, catalog, view.name)
    try:
        query = analyse(sql, file, catalog, fact, ())
        refused = _first_to_correct(sql, file) if marks.to_correct else None
    except QueryRefusedError as error:
        query, refused, sql = None, error, _marked(sql, error)
    manifest = _Manifest(view, catalog, fact, _Outputs(tree, query, fact), query)
    to_correct = manifest.to_correct.union(note for note, _ in marks.to_correct)
    return NewPipeline(
        sql, manifest.text, (*notes, *manifest.notes), refused, to_correct=frozenset(to_correct)
    )


def _first_to_correct(sql: str, file: Path) -> QueryRefusedError:
    """What was marked as none of Spark's, though the query's analysis does not see it."""
    found = _TO_CORRECT.search(sql)
    before = sql[: found.start()]
    place = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
    text = sql.splitlines()[place.line - 1].replace(found[0], "")
    return QueryRefusedError(file, place, text, why=found["of_line"] or found["why"])


def _marked(sql: str, error: QueryRefusedError) -> str:
    """The text with the refusal as a comment above its line."""
    lines = sql.splitlines(keepends=True)
    place = min(error.position.line, len(lines)) - 1
    reason = f"{error.why}{': ' + error.remedy if error.remedy else ''}"
    return "".join([*lines[:place], f"-- TO CORRECT: {reason}\n", *lines[place:]])


def _fact(tree: exp.Expr, catalog: Catalog, view: TableName) -> TableName:
    """The first table of FROM, through queries in its place."""
    node = tree
    queries = {cte.alias: cte.this for cte in tree.find_all(exp.CTE)}
    while isinstance(node, exp.Select | exp.Subquery | exp.SetOperation):
        if isinstance(node, exp.Select):
            found = relation_nodes(node) if node.args.get("from_") else ()
            node = found[0] if found else None
        else:
            node = node.this
        if isinstance(node, exp.Table) and not node.db and node.name in queries:
            node = queries.pop(node.name)
    known = {table.name for table in catalog.tables}
    if not isinstance(node, exp.Table) or (fact := table_of(node)) not in known:
        what = f"begins with {shown(node)}" if node else "reads no table"
        raise CatalogError(
            f"view {view} {what}, which is no table of the catalog of source {catalog.source}: "
            f"`lockstep source add {catalog.source} --schema …` reads the tables of more schemas"
        )
    return fact


class _Manifest:
    """The text of pipeline.toml, and what is to be looked at in it. query: None when refused."""

    def __init__(
        self,
        view: View,
        catalog: Catalog,
        fact: TableName,
        outputs: "_Outputs",
        query: Query | None,
    ) -> None:
        self._view, self._catalog, self._fact = view, catalog, fact
        self._outputs, self._query = outputs, query
        self.notes: list[str] = []
        self.to_correct: set[str] = set()
        self.text = "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterable[str]:
        view = self._view
        yield f"# Of the view {view.name}, by `lockstep pipeline new`."
        yield "format_version = 1"
        yield f'sources = ["{view.source}"]'
        yield 'semantics = "as_of_commit"'
        yield f'fact = "{self._fact}" # the first table of FROM: a row of it is a row of the result'
        yield self._key()
        yield from self._time()
        yield self._view_line()
        modes = [*([Mode.LOOKUP] if view.keeps_commit_times else []), *_PLAIN]
        listed = ", ".join(f'"{mode}"' for mode in modes)
        yield f"modes = [{listed}] # outbox and message: `lockstep pipeline prepare` says how"
        yield from self._time_zones()
        yield ""
        yield "[tolerate]"
        for mode in modes:
            race = '"lookup_race", ' if mode is Mode.LOOKUP else ""
            yield f'{mode} = [{race}"dimension_drift"]'

    def _correct(self, note: str) -> None:
        self.notes.append(note)
        self.to_correct.add(note)

    def _key(self) -> str:
        wanted = self._catalog.table(self._fact).key
        found = [self._outputs.copies_of(column) for column in wanted]
        if wanted and all(found):
            listed = ", ".join(f'"{names[0]}"' for names in found)
            return f"key = [{listed}] # the copies of its primary key ({', '.join(wanted)})"
        if self._query is None:
            why = f"name the copies of its key ({', '.join(wanted)})"
            self._correct(f"key: {why}")
            return f"key = [] # TO CORRECT: {why}"
        why = (
            f"the result has no copy of the primary key ({', '.join(wanted)})"
            if wanted
            else f"{self._fact} has no primary key"
        )
        self._correct(f"key: {why}")
        return f"key = [] # TO CORRECT: {why}"

    def _time(self) -> Iterable[str]:
        """The first NOT NULL column of a time, else the first one."""
        table = self._catalog.table(self._fact)
        times = [one for one in table.columns if one.type.startswith(_TIMES)]
        found = [(name, one) for one in times for name in self._outputs.copies_of(one.name)]
        found.sort(key=lambda pair: pair[1].is_nullable)
        if not found:
            if self._query is None:
                columns = " or ".join(one.name for one in times)
                self._correct(f"time: name a copy of {columns}")
                yield f"# TO CORRECT: time = a copy of {columns}"
                return
            self.notes.append(
                "time: no column is a copy of one of the fact's times, so that the result has no "
                "windows, and is made whole each time"
            )
            return
        name, column = found[0]
        others = "".join(f"; there is also {other}" for other, _ in found[1:])
        null = "; it may be null, which no window holds" if column.is_nullable else ""
        yield f'time = "{name}" # a copy of {column.name}, which must never change{null}{others}'
        if others or null:
            self.notes.append(f"time: {name} was chosen{null}{others}")

    def _view_line(self) -> str:
        """A comment where the view shows a local time: the run of a view refuses that."""
        local = [name for name, column in self._outputs.copied() if self._is_local(column)]
        if not local:
            return f'view = "{self._view.name}"'
        why = (
            f"{', '.join(local)} of it is a local time; name a view that makes an instant of it by "
            "AT TIME ZONE, or have the hourly run read the tables, as without this line"
        )
        self._correct(f"view: {why}")
        return f'# view = "{self._view.name}" # TO CORRECT: {why}'

    def _is_local(self, column: SourceColumn) -> bool:
        found = self._catalog.table(column.table).column(column.column)
        return found.type.endswith(_LOCAL)

    def _time_zones(self) -> Iterable[str]:
        if self._query is None:
            return
        local = [
            f"{relation.table}.{name}"
            for relation in self._query.relations
            for name in relation.columns
            if self._is_local(SourceColumn(relation.table, name))
        ]
        if local:
            named = ", ".join(f'"{name}" = "Area/City"' for name in local)
            yield f"# TO CORRECT: time_zones = {{ {named} }}"
            self._correct(f"time_zones: say in which zone the values of {', '.join(local)} are")


class _Outputs:
    """The result's columns that are plain copies of the fact's.

    Of a query that is refused those are known whose expressions say so in the outermost SELECT.
    """

    def __init__(self, tree: exp.Expr, query: Query | None, fact: TableName) -> None:
        self._tree, self._query, self._fact = tree, query, fact

    def copies_of(self, column: str) -> list[str]:
        """The names of the copies of a column of the fact, in the result's order."""
        if self._query is None:
            return [name for name, copied in self._plain() if copied == column]
        wanted = Base(SourceColumn(self._fact, column))
        return [one.name for one in self._query.outputs if self._query.copied(one.name) == wanted]

    def copied(self) -> Iterable[tuple[str, SourceColumn]]:
        """The result's columns that are plain copies of any table's; none of a query refused."""
        for one in self._query.outputs if self._query else ():
            if (found := self._query.copied(one.name)) is not None and not found.is_element:
                yield one.name, found.column

    def _plain(self) -> Iterable[tuple[str, str]]:
        """Output and column of the fact, which is the first table of FROM."""
        if not isinstance(self._tree, exp.Select) or not self._tree.args.get("from_"):
            return
        nodes = relation_nodes(self._tree)
        queries = {one.alias for one in self._tree.find_all(exp.CTE)}
        if not isinstance(nodes[0], exp.Table) or (not nodes[0].db and nodes[0].name in queries):
            return
        for output in self._tree.selects:
            copied = output.unalias()
            if isinstance(copied, exp.Column) and (
                copied.table == nodes[0].alias_or_name or (not copied.table and len(nodes) == 1)
            ):
                yield output.alias_or_name, copied.name
