"""Short names of tables in a query: `readings.temporal`, and `temporal` where one alone has it.

The text is edited at the places of the names; it is not generated again.
"""

from collections.abc import Collection, Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lockstep.pipeline.names import SEPARATOR
from lockstep.sources.errors import QueryError


def with_full_names(query: str, tables: Collection[str]) -> str:
    """The query with the tables' own names, as `tables` has them.

    `pipeline.mode` stands for `pipeline__mode`; a last part alone for the only table that ends so.
    Other names stay as they are. Raises QueryError for a short name of several tables.
    """
    try:
        tree = sqlglot.parse_one(query, dialect="postgres")
    except SqlglotError:
        return query  # the engine says what is wrong
    known = {one.lower(): one for one in tables}
    for table in sorted(_named(tree), key=_start, reverse=True):
        full = _full_name(table, known)
        if full is not None:
            query = f"{query[: _start(table)]}{full}{query[table.this.meta['end'] + 1 :]}"
    return query


def _named(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that are named, but for WITH queries."""
    own = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_placed = isinstance(table.this, exp.Identifier) and "end" in table.this.meta
        if is_placed and not table.catalog and (table.db or table.name.lower() not in own):
            yield table


def _start(table: exp.Table) -> int:
    first = table.args.get("db") or table.this
    return first.meta["start"]


def _full_name(table: exp.Table, known: Mapping[str, str]) -> str | None:
    """The name to write instead; None to leave it. known: the tables, by name in lower case."""
    if table.db:
        return known.get(f"{table.db}{SEPARATOR}{table.name}".lower())
    if table.name.lower() in known:
        return None
    ending = f"{SEPARATOR}{table.name}".lower()
    found = sorted(one for lower, one in known.items() if lower.endswith(ending))
    if len(found) > 1:
        named = ", ".join(one.replace(SEPARATOR, ".", 1) for one in found)
        raise QueryError(f"{table.name} is the name of several tables: write one of {named}")
    return found[0] if found else None
