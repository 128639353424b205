"""Rows of the fact that a change of a child touches: the owners of the row before and after it.

A child's row has its owner's primary key in columns of its own. One that is deleted, or moved to
another owner, is looked up as it was before, so that any REPLICA IDENTITY does.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from lockstep.pipeline.plan import Plan
from lockstep.pipeline.values import comparable
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.table_rows import Key, RowVersion, text_of, touched


class Children:
    """The children of one pipeline; of one without any, nothing is ever touched."""

    def __init__(self, plan: Plan, needed: NeededVersions) -> None:
        self._needed = needed
        self._fact = text_of(plan.fact.name)
        self._places = {
            text_of(name): [plan.tables[name].columns.index(column) for column in columns]
            for name, columns in plan.children.items()
        }

    def owners(self, versions: Sequence[RowVersion], commit_lsn: int) -> dict[Key, RowVersion]:
        """The keys of the fact that a transaction's versions of children touch, each with one that
        does. The versions are not taken yet."""
        found: dict[Key, RowVersion] = {}
        for table, places in self._places.items():
            of_table = {one.row.key: one for one in versions if one.table == table}
            before = self._needed.values_before(table, of_table, commit_lsn) if of_table else {}
            for key, one in of_table.items():
                for values in (before.get(key), one.row.values):
                    if values is not None:
                        owner = tuple(comparable(values[place]) for place in places)
                        found.setdefault(owner, one)
        return found

    def touched(
        self, owners: Mapping[Key, RowVersion], known: Collection[Key], commit_lsn: int
    ) -> Iterator[RowVersion]:
        """The fact's rows with these keys as of the commit, but for those that are known already.

        The transaction's versions are taken. What has no row of the fact touches nothing.
        """
        keys = [key for key in owners if key not in known and None not in key]
        rows = self._needed.values_before(self._fact, keys, commit_lsn + 1) if keys else {}
        for key, values in rows.items():
            yield touched(owners[key], self._fact, key, values)
