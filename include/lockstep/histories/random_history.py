"""A small history of the tables that a pipeline reads, made up at random.

Rows come, change, change their key, go and come again, several tables in a transaction, with nulls
wherever a column may be null. A column has a few values only; most of what a join compares is of a
row that is there. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random

from lockstep.histories.made_up import MadeUp, Values, copied, empty_state, made_up
from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.pg_types import PgType, parse_type
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.streams.ops import CREATED, DELETED, UPDATED
from lockstep.streams.table_rows import TableRow

ROWS_MAX = 6
"""Of a table at once."""
WRITES_MAX = 8
"""Of one transaction."""
_FACT_SHARE, _NULL_SHARE, _FOUND_SHARE = 0.4, 0.2, 0.7
_ELEMENTS_MAX, _CHOICES = 3, 4
_EXACT = Context(prec=38)
_DAY = datetime(2026, 3, 28, 22, tzinfo=UTC)


@dataclass(frozen=True)
class _Leads:
    """Columns of a table that are compared with those of another one; is_element: an array's
    elements are."""

    columns: tuple[str, ...]
    other: TableName
    other_columns: tuple[str, ...]
    is_element: bool = False


class RandomHistory:
    """Makes up one transaction after the other, from empty tables on."""

    def __init__(self, plan: Plan, catalog: Catalog, rng: Random) -> None:
        self._plan, self._rng = plan, rng
        self._columns = {name: _columns(table, catalog) for name, table in plan.tables.items()}
        self._names = list(plan.tables)
        self._unique, self._leads = _found_once(plan), _leads_of(plan)
        self._state = empty_state(plan)
        self._number = 0

    def transaction(self) -> MadeUp:
        """The next one; it may leave everything as it was."""
        self._number += 1
        before, writes = copied(self._state), []
        for _ in range(self._rng.randint(1, WRITES_MAX)):
            is_of_fact = self._rng.random() < _FACT_SHARE
            name = self._plan.fact.name if is_of_fact else self._rng.choice(self._names)
            writes += [(name, op, row) for op, row in self._write(name)]
        return made_up(self._plan, self._number, writes, before, copied(self._state))

    def _write(self, name: TableName) -> list[tuple[str, TableRow]]:
        """What one statement does to a row, or nothing where it would break a key."""
        table, rows = self._plan.tables[name], self._state[name]
        what = self._rng.choice([CREATED, CREATED, UPDATED, UPDATED, DELETED, "key"])
        if what == CREATED or not rows:
            return self._put(table, CREATED) if len(rows) < ROWS_MAX else []
        key = self._rng.choice(list(rows))
        old = rows[key]
        if what == UPDATED:
            return self._put(table, UPDATED, old)
        del rows[key]
        deleted = (DELETED, TableRow(key, None))
        if what == DELETED:
            return [deleted]
        # PostgreSQL's change of a key is two records of Debezium.
        put = self._put(table, CREATED)
        if not put:
            rows[key] = old
        return [deleted, *put] if put else []

    def _put(
        self, table: PlannedTable, op: str, old: Values | None = None
    ) -> list[tuple[str, TableRow]]:
        """A row with new values; with the key of `old` if there is one."""
        values = list(self._values(table))
        for leads in self._leads[table.name]:
            if self._rng.random() < _FOUND_SHARE:
                self._lead(table, values, leads)
        if old is not None:
            for place in table.key_places:
                values[place] = old[place]
        row = TableRow(table.key_of(tuple(values)), tuple(values))
        if (op == CREATED) == (row.key in self._state[table.name]) or not self._fits(table, row):
            return []
        self._state[table.name][row.key] = row.values
        return [(op, row)]

    def _lead(self, table: PlannedTable, values: list[object], leads: "_Leads") -> None:
        """Let the row have what some row of the other table has, so that a join finds that."""
        other = self._plan.tables[leads.other]
        rows = list(self._state[leads.other].values())
        if not rows:
            return
        places = [other.columns.index(name) for name in leads.other_columns]
        count = self._rng.randint(1, _ELEMENTS_MAX) if leads.is_element else 1
        chosen = [[row[place] for place in places] for row in self._rng.choices(rows, k=count)]
        if any(None in one for one in chosen):
            return
        found = [[one for (one,) in chosen]] if leads.is_element else chosen[0]
        for name, value in zip(leads.columns, found, strict=True):
            values[table.columns.index(name)] = value

    def _fits(self, table: PlannedTable, row: TableRow) -> bool:
        """Whether look-ups that are to find one row still do."""
        for columns in self._unique.get(table.name, ()):
            places = [table.columns.index(name) for name in columns]
            value = [row.values[place] for place in places]
            others = (v for key, v in self._state[table.name].items() if key != row.key)
            if None not in value and any([v[place] for place in places] == value for v in others):
                return False
        return True

    def _values(self, table: PlannedTable) -> Values:
        return tuple(self._value(*column) for column in self._columns[table.name])

    def _value(self, type_: PgType, may_be_null: bool) -> object:
        if may_be_null and self._rng.random() < _NULL_SHARE:
            return None
        if not type_.is_array:
            return self._rng.choice(_choices(type_))
        count = self._rng.randint(0, _ELEMENTS_MAX)
        return [self._rng.choice(_choices(type_)) for _ in range(count)]


def _columns(table: PlannedTable, catalog: Catalog) -> list[tuple[PgType, bool]]:
    """Of each column that is read its type, and whether it may be null."""
    columns = (catalog.table(table.name).column(name) for name in table.columns)
    return [(parse_type(one.type, catalog), one.is_nullable) for one in columns]


def _found_once(plan: Plan) -> dict[TableName, set[tuple[str, ...]]]:
    """The columns by which look-ups find one row each: a catalog has no unique constraints."""
    found: dict[TableName, set[tuple[str, ...]]] = {}
    for step in plan.steps:
        key = plan.tables[step.table].key
        if step.table not in plan.children and not set(key) <= set(step.columns):
            found.setdefault(step.table, set()).add(step.columns)
    return found


def _leads_of(plan: Plan) -> dict[TableName, list[_Leads]]:
    """Of each table the look-ups that begin at it, and those that find it as a child."""
    found: dict[TableName, list[_Leads]] = {name: [] for name in plan.tables}
    for step in plan.steps:
        if step.table in plan.children:
            found[step.table].append(_Leads(step.columns, step.from_table, step.from_columns))
        else:
            leads = _Leads(step.from_columns, step.table, step.columns, step.is_element)
            found[step.from_table].append(leads)
    return found


def _choices(type_: PgType) -> Sequence[object]:
    """A few values of a type that is no array, as the decoders give them."""
    if type_.labels is not None:
        return type_.labels
    if type_.name == "numeric":
        _, scale = (*type_.modifiers, 0)[:2]
        whole = type_.modifiers[0] > scale
        unit = Decimal(1).scaleb(-scale)
        return [
            (n * (Decimal(1) if whole else unit)).quantize(unit, context=_EXACT)
            for n in range(_CHOICES)
        ]
    if type_.name == "character":
        return [text.ljust((type_.modifiers or (1,))[0]) for text in "abcd"]
    return _VALUES[type_.name]


_NUMBERS = tuple(range(_CHOICES))
_FLOATS = (0.0, 1.5, -2.25, float("nan"))
_TEXTS = tuple("abcd")
_JSONS = ('{"a": 1}', '{"a": null}', "{}", "[1, 2]")
_TIMES = tuple(_DAY + timedelta(hours=n) for n in range(_CHOICES))
_VALUES: Mapping[str, Sequence[object]] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), _NUMBERS),
    **dict.fromkeys(("real", "double precision"), _FLOATS),
    **dict.fromkeys(("text", "character varying"), _TEXTS),
    **dict.fromkeys(("json", "jsonb"), _JSONS),
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone"), _TIMES),
    "boolean": (True, False),
    "uuid": tuple(f"00000000-0000-4000-8000-00000000000{n}" for n in range(_CHOICES)),
    "bytea": (b"", b"a", b"\0"),
    "date": tuple(date(2026, 3, 27) + timedelta(days=n) for n in range(_CHOICES)),
    "time without time zone": ("00:00:00", "12:30:00", "23:59:59.5"),
}
