"""Whether a query gives each fact one row, as joins by keys (keys.py) and groups show.

Where it does, the keys of a result need no check. False is no answer: it may do so all the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lockstep.pipeline.query.keys import multiplies
from lockstep.pipeline.query.names import Names
from lockstep.pipeline.query.tree import relation_nodes


def is_one_row_a_fact(names: Names, path: Sequence[Scope]) -> bool:
    """path: the SELECTs from the fact's own to the last, which drop no fact (path_from_fact)."""
    is_single, fixed = True, None
    for scope in path:
        select = _Select(names, scope, fixed)
        is_single = (is_single and select.adds_no_rows) or select.is_grouped_by_fact
        fixed = None if is_single else select.fixed_outputs
    return is_single


@dataclass
class _Select:
    """A SELECT on the way from the fact. A fixed column has one value in all rows of a fact.

    fixed_before: the columns of its first relation that are fixed; None: all are.
    """

    names: Names
    scope: Scope
    fixed_before: Collection[str] | None
    adds_no_rows: bool = True
    _fixed_relations: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        select = self.scope.expression
        for join in select.args.get("joins") or ():
            if multiplies(self.names, self.scope, join):
                self.adds_no_rows = False
            elif self._is_on_fixed(join):
                self._fixed_relations.add(join.this.alias_or_name)
        if select.args.get("laterals"):
            self.adds_no_rows = False

    @property
    def is_grouped_by_fact(self) -> bool:
        """Whether its groups are of a fact each: they hold its key (_check_groups), and no more
        than is fixed."""
        select = self.scope.expression
        group = select.args.get("group")
        if group is not None:
            return all(map(self._is_fixed, group.expressions))
        outputs = (one.unalias() for one in select.selects)
        return bool(select.args.get("distinct")) and all(map(self._is_fixed, outputs))

    @property
    def fixed_outputs(self) -> frozenset[str]:
        selects = self.scope.expression.selects
        return frozenset(one.alias_or_name for one in selects if self._is_fixed(one.unalias()))

    def _is_on_fixed(self, join: exp.Join) -> bool:
        alias = join.this.alias_or_name
        columns = join.args["on"].find_all(exp.Column)
        return all(self._is_fixed(column) for column in columns if column.table != alias)

    def _is_fixed(self, node: exp.Expr) -> bool:
        """Of plain columns; of what is computed of them it is not looked for."""
        if not isinstance(node, exp.Column):
            return False
        if node.table in self._fixed_relations:
            return True
        first = relation_nodes(self.scope.expression)[0].alias_or_name
        return node.table == first and (self.fixed_before is None or node.name in self.fixed_before)
