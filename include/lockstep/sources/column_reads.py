"""How PostgreSQL sends a column so that Spark's value is exactly the stream's, and what it refuses.

Pure: expressions of PostgreSQL (14 or newer), composed of names and of the table of types
(pipeline/type_table.py), and what Spark makes of what was sent. Dates are sent as days and instants
as microseconds since 1970, integers that no driver's calendar or time zone changes; text of each
type as PostgreSQL writes it. What the stream's decoder refuses by value, `refused` finds here.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from psycopg import sql

from lockstep.model.window import Window
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.values import ARRAY_FIRST_DAY
from lockstep.sources.zone_clock import ZoneClock

_CASTS = {
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "float": "float4",
    "double": "float8",
    "boolean": "bool",
    "binary": "bytea",
    "date": "date",
}
"""PostgreSQL's type by Delta's, of those that have the same values but for a date's range."""
_CONVERTS = {"date": "date_from_unix_date", "timestamp": "timestamp_micros"}
"""Spark's function of what is sent for a value of a type; of others it is cast."""
_FIRST, _LAST = datetime.min, datetime.max
_OFFSET_MAX = timedelta(days=2)
"""More than any zone's local time is away from UTC."""
_JAVA_ARRAY = r"^\[+(L[\w.$]+;|[A-Z])@[0-9a-f]+$"
"""As values.not_nested has it."""


@dataclass(frozen=True)
class ColumnRead:
    """One column in a read. clock: of a type with a time zone, for all its local times there."""

    name: str
    type: ValueType
    clock: ZoneClock | None = None

    @property
    def sent(self) -> sql.Composable:
        """What PostgreSQL sends; `received` makes the value of it.

        Only for values that `refused` does not find: others may fail, or become another value.
        """
        value, element = sql.Identifier(self.name), _element(self.type)
        if not _is_array(self.type):
            return self._sent_scalar(value)
        array = _as_base(value, self.type)
        if element in ("date", "timestamp"):
            # ARRAY( … ) of no array would be an empty one.
            return sql.SQL(
                "CASE WHEN {array} IS NOT NULL THEN ARRAY(SELECT {item} FROM unnest({array}) "
                "WITH ORDINALITY AS of_array (item, place) ORDER BY place) END"
            ).format(array=array, item=self._sent_scalar(sql.Identifier("item")))
        return _cast(array, "text[]") if element.startswith("decimal") else array

    def received(self, sent: str) -> str:
        """The value of what PostgreSQL sent, of exactly the type `type.delta`, in Spark's SQL."""
        convert = _CONVERTS.get(_element(self.type))
        if convert is None:
            return f"CAST({sent} AS {self.type.delta})"
        if _is_array(self.type):
            return f"transform({sent}, item -> {convert}(item))"
        return f"{convert}({sent})"

    @property
    def instant(self) -> sql.Composable:
        """A timestamp as a `timestamp with time zone`."""
        return self._instant(sql.Identifier(self.name))

    @property
    def refused(self) -> sql.Composable | None:
        """The condition that there is a value that the stream refuses; None if there cannot be."""
        value = sql.Identifier(self.name)
        if not _is_array(self.type):
            return self._refused_scalar(value)
        array, items = _as_base(value, self.type), sql.SQL("")
        refused_item = self._refused_item(sql.Identifier("item"))
        if refused_item is not None:
            items = sql.SQL(
                " OR EXISTS (SELECT FROM unnest({array}) AS of_array (item) WHERE {refused})"
            ).format(array=array, refused=refused_item)
        return sql.SQL(
            "(array_ndims({array}) > 1 OR cardinality({array}) > 0 "
            "AND num_nulls(VARIADIC {array}) = cardinality({array}){items})"
        ).format(array=array, items=items)

    def _instant(self, value: sql.Composable) -> sql.Composable:
        if self.clock is None:
            return value
        return sql.SQL("(({value} - {offset}) AT TIME ZONE 'UTC')").format(
            value=value, offset=self.clock.offset(value)
        )

    def _sent_scalar(self, value: sql.Composable) -> sql.Composable:
        element = _element(self.type)
        if element == "date":
            return sql.SQL("({} - {})").format(value, sql.Literal(date(1970, 1, 1)))
        if element == "timestamp":
            return sql.SQL("CAST(extract(epoch FROM {}) * 1000000 AS int8)").format(
                self._instant(value)
            )
        if element == "string" and self.type.pg.startswith("character("):
            # A cast to text would remove the blanks at its end.
            return sql.SQL("textin(bpcharout({}))").format(value)
        if element == "string":
            return _cast(value, "text")
        return _cast(value, _CASTS.get(element) or element.replace("decimal", "numeric"))

    def _refused_item(self, item: sql.Composable) -> sql.Composable | None:
        element = _element(self.type)
        if element == "string":
            return sql.SQL("{} ~ {}").format(item, sql.Literal(_JAVA_ARRAY))
        if element not in ("date", "timestamp"):
            return self._refused_scalar(item)
        first: date = ARRAY_FIRST_DAY
        if element == "timestamp":
            first = datetime(first.year, first.month, first.day, tzinfo=UTC)
        return sql.SQL("({refused} OR {instant} < {first})").format(
            refused=self._refused_scalar(item),
            instant=self._instant(item),
            first=sql.Literal(first),
        )

    def _refused_scalar(self, value: sql.Composable) -> sql.Composable | None:
        element = _element(self.type)
        if element.startswith("decimal"):
            return sql.SQL("({} = {})").format(value, sql.Literal(Decimal("NaN")))
        if element not in ("date", "timestamp"):
            return None
        if self.clock is None:
            return _outside(value, self.type)
        # A CASE, for a local time at PostgreSQL's own limits may have no instant.
        return sql.SQL(
            "({value} IS NOT NULL AND CASE WHEN {outside} THEN true "
            "ELSE coalesce({instant} NOT BETWEEN {first} AND {last}, true) END)"
        ).format(
            value=value,
            outside=_outside(value, self.type),
            instant=self._instant(value),
            first=sql.Literal(_FIRST.replace(tzinfo=UTC)),
            last=sql.Literal(_LAST.replace(tzinfo=UTC)),
        )


def inside(column: ColumnRead, window: Window) -> sql.Composable:
    """The condition that a timestamp column is in the window; an index of the column serves it."""
    return sql.SQL("({near} AND {instant} >= {start} AND {instant} < {end})").format(
        near=near(column.name, column.type, window),
        instant=column.instant,
        start=sql.Literal(window.start),
        end=sql.Literal(window.end),
    )


def near(column: str, type_: ValueType, window: Window) -> sql.Composable:
    """A condition that each row meets whose timestamp column is in the window, and a few more do.

    An index of the column serves it.
    """
    start, end, far = window.start, window.end, timedelta()
    if type_.time_zone is not None:
        start, end, far = start.replace(tzinfo=None), end.replace(tzinfo=None), _OFFSET_MAX
    return sql.SQL("{column} BETWEEN {start} - {far} AND {end} + {far}").format(
        column=sql.Identifier(column),
        start=sql.Literal(start),
        end=sql.Literal(end),
        far=sql.Literal(far),
    )


def out_of_time(column: str, type_: ValueType) -> sql.Composable:
    """The condition that a timestamp column is null, or in no year from 1 to 9999."""
    value = sql.Identifier(column)
    return sql.SQL("({value} IS NULL OR {outside})").format(
        value=value, outside=_outside(value, type_)
    )


def local_times(column: str, type_: ValueType) -> sql.Composable:
    """The local times in a row's column of a type with a time zone, as an array."""
    value = sql.Identifier(column)
    return _as_base(value, type_) if _is_array(type_) else sql.SQL("ARRAY[{}]").format(value)


def why_refused(type_: ValueType) -> str:
    """What values of this type are refused, for an error that names a column that has one."""
    element = _element(type_)
    parts = []
    if element.startswith("decimal"):
        parts.append("NaN")
    if element in ("date", "timestamp"):
        parts.append(
            f"before {ARRAY_FIRST_DAY}, infinity or after the year 9999"
            if _is_array(type_)
            else "BC, infinity or after the year 9999"
        )
    if type_.time_zone is not None:
        parts.append(f"a local time that {type_.time_zone} skips or has twice")
    if _is_array(type_):
        parts.append("an array of arrays, or of nothing but nulls")
    return "; ".join(parts)


def _is_array(type_: ValueType) -> bool:
    return type_.delta.startswith("array<")


def _element(type_: ValueType) -> str:
    """Delta's type of the value, or of an array's elements."""
    return type_.delta.removeprefix("array<").removesuffix(">")


def _cast(value: sql.Composable, pg: str) -> sql.Composable:
    return sql.SQL("CAST({value} AS {pg})").format(value=value, pg=sql.SQL(pg))


def _as_base(array: sql.Composable, type_: ValueType) -> sql.Composable:
    """An array, of a domain perhaps, as one of PostgreSQL's own types; those of text as text.

    By way of the array's own text, in which a char(n) keeps the blanks at its end.
    """
    element = _element(type_)
    if element == "string":
        return _cast(_cast(array, "text"), "text[]")
    if element == "timestamp":
        return _cast(array, "timestamptz[]" if type_.time_zone is None else "timestamp[]")
    return _cast(array, f"{_CASTS.get(element, 'numeric')}[]")


def _outside(value: sql.Composable, type_: ValueType) -> sql.Composable:
    """Whether a date, local time or instant is in no year from 1 to 9999."""
    first, last = _FIRST, _LAST
    if _element(type_) == "date":
        first, last = date.min, date.max
    elif type_.time_zone is None:
        first, last = _FIRST.replace(tzinfo=UTC), _LAST.replace(tzinfo=UTC)
    return sql.SQL("({} NOT BETWEEN {} AND {})").format(
        value, sql.Literal(first), sql.Literal(last)
    )
