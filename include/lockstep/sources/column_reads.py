"""How PostgreSQL sends a column so that Spark's value is exactly the stream's, and what it refuses.

Pure: expressions of PostgreSQL (14 or newer), composed of names and of the table of types
(pipeline/type_table.py), and what Spark makes of what was sent. Dates are sent as days and instants
as microseconds since 1970, integers that no driver's calendar or time zone changes; text of each
type as PostgreSQL writes it. What the stream's decoder refuses by value, `refused` finds here.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.values import ARRAY_FIRST_DAY

if TYPE_CHECKING:
    from pyspark.sql import Column

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
_FIRST, _LAST = datetime.min, datetime.max
_OFFSET_MAX = timedelta(days=2)
"""More than any zone's local time is away from UTC."""
_ZONE_STEP = timedelta(hours=25)
"""Longer than what clocks were ever put back by, and shorter than between two such changes."""
_JAVA_ARRAY = r"^\[+(L[\w.$]+;|[A-Z])@[0-9a-f]+$"
"""As values.not_nested has it."""


def sent(column: str, type_: ValueType) -> sql.Composable:
    """What PostgreSQL sends of a column; `received` makes the value of it.

    Only for values that `refused` does not find: others may fail, or become another value.
    """
    value = sql.Identifier(column)
    element = _element(type_)
    if not _is_array(type_):
        return _sent_scalar(value, element, type_)
    if element in ("date", "timestamp"):
        # ARRAY( … ) of no array would be an empty one.
        return sql.SQL(
            "CASE WHEN {array} IS NOT NULL THEN ARRAY(SELECT {item} FROM unnest({array}) "
            "WITH ORDINALITY AS of_array (item, place) ORDER BY place) END"
        ).format(
            array=_as_base(value, type_),
            item=_sent_scalar(sql.Identifier("item"), element, type_),
        )
    if element.startswith("decimal"):
        return _cast(_as_base(value, type_), "text[]")
    return _as_base(value, type_)


def received(sent_value: "Column", type_: ValueType) -> "Column":
    """The value of what PostgreSQL sent, of exactly the type `type_.delta`."""
    from pyspark.sql import functions as F  # noqa: N812

    convert = {"date": F.date_from_unix_date, "timestamp": F.timestamp_micros}.get(_element(type_))
    if convert is not None:
        return F.transform(sent_value, convert) if _is_array(type_) else convert(sent_value)
    return sent_value.cast(type_.delta)


def instant(column: str, type_: ValueType) -> sql.Composable:
    """A column of a timestamp type as a `timestamp with time zone`."""
    return _instant(sql.Identifier(column), type_)


def in_range(column: str, type_: ValueType, start: datetime, end: datetime) -> sql.Composable:
    """The condition that a timestamp column is in [start, end); an index of the column serves it.

    start and end are in UTC.
    """
    bounds = sql.SQL("{instant} >= {start} AND {instant} < {end}").format(
        instant=instant(column, type_), start=sql.Literal(start), end=sql.Literal(end)
    )
    if type_.time_zone is None:
        return bounds
    return sql.SQL("{bounds} AND {column} BETWEEN {first} - {far} AND {last} + {far}").format(
        bounds=bounds,
        column=sql.Identifier(column),
        first=sql.Literal(start.replace(tzinfo=None)),
        last=sql.Literal(end.replace(tzinfo=None)),
        far=sql.Literal(_OFFSET_MAX),
    )


def out_of_time(column: str, type_: ValueType) -> sql.Composable:
    """The condition that a timestamp column is null, or in no year from 1 to 9999."""
    value = sql.Identifier(column)
    return sql.SQL("{value} IS NULL OR {outside}").format(
        value=value, outside=_outside(value, type_)
    )


def refused(column: str, type_: ValueType) -> sql.Composable | None:
    """The condition that a column holds a value that the stream refuses; None if it cannot."""
    value = sql.Identifier(column)
    if not _is_array(type_):
        return _refused_scalar(value, type_)
    array = _as_base(value, type_)
    refused_item = _refused_item(sql.Identifier("item"), type_)
    items = sql.SQL("")
    if refused_item is not None:
        items = sql.SQL(
            " OR EXISTS (SELECT FROM unnest({array}) AS of_array (item) WHERE {refused})"
        ).format(array=array, refused=refused_item)
    return sql.SQL(
        "(array_ndims({array}) > 1 OR "
        "cardinality({array}) > 0 AND num_nulls(VARIADIC {array}) = cardinality({array}){items})"
    ).format(array=array, items=items)


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


def _instant(value: sql.Composable, type_: ValueType) -> sql.Composable:
    if type_.time_zone is None:
        return value
    return sql.SQL("({} AT TIME ZONE {})").format(value, sql.Literal(type_.time_zone))


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


def _sent_scalar(value: sql.Composable, element: str, type_: ValueType) -> sql.Composable:
    if element == "date":
        return sql.SQL("({} - {})").format(value, sql.Literal(date(1970, 1, 1)))
    if element == "timestamp":
        return sql.SQL("CAST(extract(epoch FROM {}) * 1000000 AS int8)").format(
            _instant(value, type_)
        )
    if element == "string":
        # A cast to text would remove the blanks at the end of a char(n).
        is_padded = type_.pg.startswith("character(")
        return sql.SQL("textin(bpcharout({}))").format(value) if is_padded else _cast(value, "text")
    return _cast(value, _CASTS.get(element) or element.replace("decimal", "numeric"))


def _refused_item(item: sql.Composable, type_: ValueType) -> sql.Composable | None:
    element = _element(type_)
    if element == "string":
        return sql.SQL("{} ~ {}").format(item, sql.Literal(_JAVA_ARRAY))
    if element not in ("date", "timestamp"):
        return _refused_scalar(item, type_)
    first = ARRAY_FIRST_DAY
    if element == "timestamp":
        first = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return sql.SQL("({refused} OR {instant} < {first})").format(
        refused=_refused_scalar(item, type_),
        instant=_instant(item, type_),
        first=sql.Literal(first),
    )


def _refused_scalar(value: sql.Composable, type_: ValueType) -> sql.Composable | None:
    element = _element(type_)
    if element.startswith("decimal"):
        return sql.SQL("{} = {}").format(value, sql.Literal(Decimal("NaN")))
    if element not in ("date", "timestamp"):
        return None
    if type_.time_zone in (None, "UTC"):
        return _outside(value, type_)
    # A CASE, for a local time at PostgreSQL's own limits has no instant in some zones.
    return sql.SQL("CASE WHEN {outside} THEN true ELSE {unclear} END").format(
        outside=_outside(value, type_), unclear=_unclear(value, type_)
    )


def _outside(value: sql.Composable, type_: ValueType) -> sql.Composable:
    """Whether a date, local time or instant is in no year from 1 to 9999."""
    first, last = _FIRST, _LAST
    if _element(type_) == "date":
        first, last = date.min, date.max
    elif type_.time_zone is None:
        first, last = _FIRST.replace(tzinfo=UTC), _LAST.replace(tzinfo=UTC)
    return sql.SQL("{} NOT BETWEEN {} AND {}").format(value, sql.Literal(first), sql.Literal(last))


def _unclear(value: sql.Composable, type_: ValueType) -> sql.Composable:
    """Whether a local time does not exist in its zone, is there twice, or is no year's instant.

    Where clocks are put back PostgreSQL takes the second of the two instants; the first one is
    earlier by what the offset was greater before.
    """
    here = _instant(value, type_)
    zone = sql.Literal(type_.time_zone)
    earlier = sql.SQL("({} - {})").format(here, sql.Literal(_ZONE_STEP))
    offset = sql.SQL("(({at} AT TIME ZONE {zone}) - ({at} AT TIME ZONE 'UTC'))")
    first_of_two = sql.SQL("({here} - ({before} - {after}))").format(
        here=here,
        before=offset.format(at=earlier, zone=zone),
        after=offset.format(at=here, zone=zone),
    )
    return sql.SQL(
        "({here} NOT BETWEEN {first} AND {last} OR ({here} AT TIME ZONE {zone}) <> {value} "
        "OR {first_of_two} < {here} AND ({first_of_two} AT TIME ZONE {zone}) = {value})"
    ).format(
        here=here,
        first=sql.Literal(_FIRST.replace(tzinfo=UTC)),
        last=sql.Literal(_LAST.replace(tzinfo=UTC)),
        zone=zone,
        value=value,
        first_of_two=first_of_two,
    )
