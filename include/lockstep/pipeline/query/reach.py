"""Which rows a micro-batch needs of the tables that its facts lead to: look-ups by column.

The fact's rows come first; from them equalities lead to the other relations. A superset of the rows
is always right, a subset never, so an equality is followed only where leaving out other rows leaves
the result as it is:
- an ON is followed to the relation that the join adds; of INNER and SEMI joins, and in WHERE, in
  both directions;
- a correlation is followed into the query that it is in;
- into a derived table or WITH query through a column that it copies, groups by, and that each of
  its windows is partitioned by; into each side of a UNION, EXCEPT or INTERSECT;
- never IN (it is null, not false, when a null is among the rows), never <=> (a look-up finds no
  nulls), and between types that compare without a cast only.

A look-up follows all equalities between the same two tables of one SELECT, such as those of a key
of several columns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.query.keys import grouped
from lockstep.pipeline.query.names import Base, Names, SourceColumn, output, source_of, visible_in
from lockstep.pipeline.query.tree import conjuncts, relation_nodes, span_of

_Equalities = tuple[tuple[SourceColumn, Base], ...]


@dataclass(frozen=True)
class Reach:
    """Fetch the versions of `table` whose `columns` are what one row's `from_columns` are.

    That row is of all versions of `from_table` that are fetched so far; is_element: there is one
    column, an array, and its elements are meant. Nulls lead nowhere. Where the columns include the
    primary key of `table`, they are that key, in its order. A step may come again, behind one that
    fetches more of `from_table`: a table joined with itself twice is reached by the same step
    twice.
    """

    table: TableName
    columns: tuple[str, ...]
    from_table: TableName
    from_columns: tuple[str, ...]
    is_element: bool = False

    @property
    def equalities(self) -> tuple[tuple[str, str], ...]:
        """Each column with the one that it is equal to."""
        return tuple(zip(self.columns, self.from_columns, strict=True))


def needed_rows(query: Query) -> tuple[Reach, ...]:
    """The look-ups that fetch what the facts of a micro-batch need, in their order.

    Guarantee: over the rows that these fetch, the query gives for these facts what it gives over
    all rows. Raises QueryRefusedError at a relation to which no equality leads.
    """
    return _planned(query).steps


def join_edges(query: Query) -> tuple[Reach, ...]:
    """Every equality, each by itself, that leads to a relation that a join or a subquery adds.

    Those that `needed_rows` does not take are among them. Raises as it does.
    """
    return _planned(query).edges


def equalities_of_joins(query: Query) -> dict[TableName, tuple[Reach, ...]]:
    """Of each table that only the last SELECT reads, and once: every equality that leads to it.

    A row of such a table that is joined fulfils all of them. Raises as `needed_rows` does.
    """
    names, edges = query.names, join_edges(query)
    uses = Counter(
        (names.table(source).name, scope is names.root)
        for scope in names.scopes
        if isinstance(scope.expression, exp.Select)
        for node in relation_nodes(scope.expression)
        if isinstance(source := source_of(scope, node.alias_or_name), exp.Table)
    )
    joined = [table for table, is_last in uses if is_last and uses[table, False] == 0]
    return {
        table: tuple(edge for edge in edges if edge.table == table)
        for table in joined
        if uses[table, True] == 1
    }


def _planned(query: Query) -> "_Plan":
    plan = _Plan(query.names)
    try:
        plan.follow(query.names.root, (), is_of_fact=True)
    except _UnreachedError as error:
        raise _refused(query.names, error.scope, error.node) from error
    for scope in query.names.scopes:
        for node in relation_nodes(scope.expression) if scope.expression.key == "select" else ():
            if isinstance(source_of(scope, node.alias_or_name), exp.Table) and id(node) not in (
                plan.found
            ):
                why = "the WITH query that reads this table is not used"
                raise query.names.text.refused(span_of(node), why, "leave it out")
    return plan


class _UnreachedError(Exception):
    """No equality leads to a relation of a SELECT; another way into that SELECT may."""

    def __init__(self, scope: Scope, node: exp.Expr) -> None:
        super().__init__(node.alias_or_name)
        self.scope, self.node = scope, node


@dataclass
class _Plan:
    """steps and edges as far as they are found; found: the tables' nodes, by identity."""

    names: Names
    steps: tuple[Reach, ...] = ()
    edges: tuple[Reach, ...] = ()
    found: set[int] = field(default_factory=set)

    def follow(
        self, scope: Scope, entries: Iterable[tuple[exp.Column, Base]], *, is_of_fact: bool = False
    ) -> None:
        """Reach all relations of a SELECT, from some of its columns whose values are known."""
        nodes = relation_nodes(scope.expression)
        reached = {column.table for column, base in entries if self._enter(scope, column, base)}
        if is_of_fact:
            reached.add(self._enter_fact(scope, nodes[0]))
        waiting = [node for node in nodes if node.alias_or_name not in reached]
        while waiting:
            node = next((one for one in waiting if self._reach(scope, one, reached)), None)
            if node is None:
                raise _UnreachedError(scope, waiting[0])
            reached.add(node.alias_or_name)
            waiting.remove(node)
        for inner in scope.subquery_scopes:
            self.follow(inner, ())

    def _enter_fact(self, scope: Scope, node: exp.Expr) -> str:
        source = source_of(scope, node.alias_or_name)
        if isinstance(source, Scope):
            self.follow(source, (), is_of_fact=True)
        self.found.add(id(node))
        return node.alias_or_name

    def _reach(self, scope: Scope, node: exp.Expr, reached: set[str]) -> bool:
        """By every equality that can be followed; the first one is the step."""
        is_reached = False
        for column, other in _equalities(scope, node.alias_or_name):
            base = self.names.base(scope, other)
            if base is None or not _is_known(scope, other, reached):
                continue
            steps, edges = self.steps, self.edges
            try:
                entered = self._enter(scope, column, base, self._others(scope, column, other))
            except _UnreachedError:
                entered = False
            if is_reached or not entered:
                self.steps = steps
            if not entered:
                self.edges = edges
            is_reached = is_reached or entered
        return is_reached

    def _others(self, scope: Scope, column: exp.Column, other: exp.Column) -> _Equalities:
        """The other equalities of two tables of a SELECT that can be followed with this one."""
        tables = visible_in(scope)
        source, from_source = tables.get(column.table), tables.get(other.table)
        if not (isinstance(source, exp.Table) and isinstance(from_source, exp.Table)):
            return ()
        return tuple(
            (self.names.source_column(source, one.name), Base(base))
            for one, another in _equalities(scope, column.table)
            if another.table == other.table and one.name != column.name
            for base in [self.names.source_column(from_source, another.name)]
        )

    def _enter(
        self, scope: Scope, column: exp.Column, base: Base, others: _Equalities = ()
    ) -> bool:
        """Whether a relation can be restricted by a column, to values of a base.

        others: more equalities of the same two tables.
        """
        source = visible_in(scope)[column.table]
        if isinstance(source, exp.Table):
            return self._look_up(source, column, base, others)
        if isinstance(source.expression, exp.Lateral):
            return False
        return self._enter_query(source, column.name, base)

    def _enter_query(self, scope: Scope, name: str, base: Base) -> bool:
        if isinstance(scope.expression, exp.SetOperation):
            number = scope.expression.named_selects.index(name)
            sides = scope.set_operation_scopes
            return all(
                self._enter_query(one, one.expression.named_selects[number], base) for one in sides
            )
        value = output(scope, name)
        if not isinstance(value, exp.Column) or not _is_restrictable(scope, value):
            return False
        self.follow(scope, [(value, base)])
        return True

    def _look_up(
        self, node: exp.Table, column: exp.Column, base: Base, others: _Equalities
    ) -> bool:
        found = self.names.source_column(node, column.name)
        if not self.names.compares(found, base):
            return False
        edge = Reach(
            found.table,
            (found.column,),
            base.column.table,
            (base.column.column,),
            base.is_element,
        )
        step = edge if base.is_element else self._with(edge, others)
        self.steps += () if self._is_followed(step) else (step,)
        self.edges += () if edge in self.edges else (edge,)
        self.found.add(id(node))
        return True

    def _with(self, edge: Reach, others: _Equalities) -> Reach:
        """One look-up by this equality and those that compare as it does, each column once."""
        by_column = dict(edge.equalities)
        for column, base in others:
            if self.names.compares(column, base):
                by_column.setdefault(column.column, base.column.column)
        key = self.names.catalog.table(edge.table).key
        columns = key if key and by_column.keys() >= set(key) else tuple(by_column)
        from_columns = tuple(by_column[column] for column in columns)
        return replace(edge, columns=columns, from_columns=from_columns)

    def _is_followed(self, step: Reach) -> bool:
        """Whether the step is there, and none from it on adds rows that it would lead on from."""
        if step not in self.steps:
            return False
        last = len(self.steps) - 1 - self.steps[::-1].index(step)
        return all(later.table != step.from_table for later in self.steps[last:])


def _is_known(scope: Scope, column: exp.Column, reached: set[str]) -> bool:
    """Of a relation that is reached, of a LATERAL VIEW over it, or of the query around."""
    own = visible_in(scope)
    source = own.get(column.table)
    if isinstance(source, Scope) and isinstance(source.expression, exp.Lateral):
        return all(
            _is_known(scope, one, reached) for one in source.expression.this.find_all(exp.Column)
        )
    return column.table in reached or source is None


def _is_restrictable(scope: Scope, column: exp.Column) -> bool:
    """Whether rows with other values of a column have no part in those with this value."""
    group = scope.expression.args.get("group")
    name = column.table, column.name
    if group and name not in grouped(group):
        return False
    for window in scope.find_all(exp.Window):
        parts = window.args.get("partition_by") or ()
        if name not in [(one.table, one.name) for one in parts if isinstance(one, exp.Column)]:
            return False
    return True


def _equalities(scope: Scope, alias: str) -> Iterator[tuple[exp.Column, exp.Column]]:
    """The columns of a relation that are equal to one of another, with that one."""
    conditions = list(conjuncts(scope.expression.args.get("where")))
    for join in scope.expression.args.get("joins") or ():
        is_one_way = join.kind == "ANTI" or (join.side == "LEFT" and join.kind != "SEMI")
        if not is_one_way or join.this.alias_or_name == alias:
            conditions += conjuncts(join.args["on"])
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            sides = condition.this.unnest(), condition.expression.unnest()
            for one, other in (sides, sides[::-1]):
                is_pair = isinstance(one, exp.Column) and isinstance(other, exp.Column)
                if is_pair and one.table == alias != other.table:
                    yield one, other


def _refused(names: Names, scope: Scope, node: exp.Expr) -> Exception:
    joins = scope.expression.args.get("joins") or ()
    condition = next((join.args["on"] for join in joins if join.this is node), None)
    first, last = span_of(node)
    last = span_of(condition)[1] if condition is not None else last
    alias = node.alias_or_name
    ranges = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
    equal = exp.EQ, exp.NullSafeEQ
    if condition is not None and condition.find(*ranges) and not condition.find(*equal):
        why = f"{alias} is joined by range only, so each micro-batch would read all of it"
    else:
        why = f"no equality leads from the fact to {alias}, so a micro-batch would read all of it"
    remedy = f"compare a column of {alias} with one of the fact, or of what it leads to, by ="
    return names.text.refused((first, last), why, remedy)
