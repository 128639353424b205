"""The table of types: what each PostgreSQL type is in Debezium's JSON, Python, Arrow and Delta.

One row for each type (`_SIMPLE`, and a function where modifiers count), and arrays made from them.
Debezium's side is that of capture/source_connector.json: JSON without schemas,
decimal.handling.mode=string, and the defaults of time.precision.mode (adaptive),
binary.handling.mode (base64) and unavailable.value.placeholder. What version 3.6.3 does not send
exactly is refused by type, or by value where the value shows it. Names are taken apart in
pg_types.py, values are converted in values.py. Columns and tables are never here: types.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import md5
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Meta

from lockstep.pipeline import keys, values
from lockstep.pipeline.pg_types import PgType, RefusedError, refused_type, require_decimal

if TYPE_CHECKING:
    import pyarrow as pa

PLACEHOLDER = "__debezium_unavailable_value"
"""What Debezium sends for a large value that an update did not change; in other types than text an
encoding of it. A value of the database that is equal to it is taken for it."""
_PLACEHOLDER_BYTES = PLACEHOLDER.encode()
_PLACEHOLDER_NUMBERS = list(_PLACEHOLDER_BYTES)
_PLACEHOLDER_UUID = str(
    UUID(bytes=md5(_PLACEHOLDER_BYTES, usedforsecurity=False).digest(), version=3)
)
_MILLISECOND_DIGITS_MAX = 3
"""time.precision.mode=adaptive: up to so many digits of a second come as milliseconds."""


@dataclass(frozen=True)
class ValueType:
    """One column's type in each of the systems that its values pass.

    pg: PostgreSQL's name, domains resolved. delta: as in Spark's DDL. decoded: what msgspec decodes
    Debezium's JSON as; it checks ranges of numbers, labels of enums, and nulls where the column has
    none. time_zone: of a `timestamp without time zone`, the IANA name of the zone that its values
    are local time of.
    """

    pg: str
    delta: str
    decoded: Any
    convert: values.Convert | None = None
    placeholder: Any = None
    key: Callable[[Any], str] | None = None
    time_zone: str | None = None

    @property
    def arrow(self) -> "pa.DataType":
        """Of Arrow tables and record batches: Delta's type in Arrow."""
        from lockstep.pipeline.delta_types import arrow_type  # pyarrow takes a DAG's load 0.2 s

        return arrow_type(self.delta)

    @property
    def may_be_key(self) -> bool:
        """Whether equal values of it have equal, exact text.

        A collation that is nondeterministic forbids it as well; a catalog does not have that.
        """
        return self.key is not None

    def value(self, decoded: Any) -> Any:
        """The Python value of a decoded one: pa.array(…, arrow) takes it, and gives it back.

        Raises ValueError for a value that Delta cannot hold or that did not come exactly. A
        placeholder is no value: ask `is_placeholder` before.
        """
        return decoded if decoded is None or self.convert is None else self.convert(decoded)

    def is_placeholder(self, decoded: Any) -> bool:
        """Whether this stands for a large value that an update left as it was."""
        return self.placeholder is not None and decoded == self.placeholder


def scalar_type(pg: PgType, time_zone: str | None) -> ValueType:
    """The row of a type that is no array. Raises RefusedError with why and what to do."""
    if pg.labels is not None:
        return _enum(pg)
    if pg.name in _BY_MODIFIERS:
        return _BY_MODIFIERS[pg.name](pg, time_zone)
    if pg.name in _SIMPLE:
        return replace(_SIMPLE[pg.name], pg=pg.text)
    raise refused_type(pg.name)


def array_type(pg: PgType, element: ValueType) -> ValueType:
    """A one-dimensional array of a scalar type. Raises RefusedError for those of time.

    Bounds other than from 1 are lost on the way. `placeholder` is None where Debezium sends null
    for a large array that an update left as it was.
    """
    if pg.name == "time without time zone":
        raise RefusedError(
            "Debezium cuts the times of an array to milliseconds; ALTER the column to an array of "
            "text, or leave the column out of the query"
        )
    convert = element.convert
    if pg.name in _DAYS:
        convert = values.from_array_first_day(convert)
    elif pg.name in (*_TEXTS, "uuid"):
        convert = values.not_nested
    return ValueType(
        pg=pg.text,
        delta=f"array<{element.delta}>",
        decoded=list[element.decoded | None],
        convert=values.to_array(convert),
        placeholder=None if pg.in_domain else _ARRAY_PLACEHOLDERS.get(pg.name),
        time_zone=element.time_zone,
    )


def _integer(bits: int) -> Any:
    return Annotated[int, Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


def _units(first: int, last: int, unit_us: int) -> Any:
    """Counts of unit_us microseconds, both bounds given in microseconds."""
    return Annotated[int, Meta(ge=-(-first // unit_us), le=last // unit_us)]


def _text(key: Callable[[str], str] | None) -> ValueType:
    return ValueType("", "string", str, placeholder=PLACEHOLDER, key=key)


_DOUBLE = float | Literal["NaN", "Infinity", "-Infinity"]
_UTC = Annotated[datetime, Meta(tz=True)]
_DAY = Annotated[int, Meta(ge=values.FIRST_DAY, le=values.LAST_DAY)]
_SIMPLE = {
    "smallint": ValueType("", "smallint", _integer(16), key=keys.number),
    "integer": ValueType("", "int", _integer(32), key=keys.number),
    "bigint": ValueType("", "bigint", _integer(64), key=keys.number),
    "real": ValueType("", "float", _DOUBLE, values.to_real),
    "double precision": ValueType("", "double", _DOUBLE, values.to_double),
    "boolean": ValueType("", "boolean", bool, key=keys.boolean),
    "text": _text(keys.text),
    "character varying": _text(keys.text),
    "character": _text(keys.padded_text),
    "json": _text(None),
    "jsonb": _text(None),
    "uuid": ValueType("", "string", str, key=keys.uuid),
    "bytea": ValueType("", "binary", bytes, placeholder=_PLACEHOLDER_BYTES, key=keys.binary),
    "date": ValueType("", "date", _DAY, values.to_date, key=keys.day),
    "timestamp with time zone": ValueType("", "timestamp", _UTC, key=keys.instant),
}
"""By PostgreSQL's name; `pg` is filled in. Of char(n) Debezium sends all n characters, padded, in
snapshots and changes alike, and so they stay."""


def _numeric(pg: PgType, _time_zone: str | None) -> ValueType:
    precision, scale = require_decimal(pg.modifiers)
    return ValueType(
        pg=pg.text,
        delta=f"decimal({precision},{scale})",
        decoded=str,
        convert=values.to_decimal(precision, scale),
        placeholder=PLACEHOLDER,
        key=keys.decimal,
    )


def _time(pg: PgType, _time_zone: str | None) -> ValueType:
    """As PostgreSQL's text: neither Delta nor Spark's Parquet has a time that may be 24:00:00."""
    unit_us = _unit_us(pg)
    decoded = _units(0, values.DAY_US, unit_us)
    return ValueType(pg.text, "string", decoded, values.to_time(unit_us), key=keys.text)


def _timestamp(pg: PgType, time_zone: str | None) -> ValueType:
    if time_zone is None:
        raise RefusedError(
            "nothing says which zone's local time it is; name the zone under `time_zones` in the "
            "manifest, or ALTER the column to timestamp with time zone"
        )
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise RefusedError(
            f"there is no time zone {values.shown(time_zone)}; name one as the IANA database does, "
            "such as Europe/Berlin or UTC"
        ) from None
    return ValueType(
        pg=pg.text,
        delta="timestamp",
        decoded=_units(values.FIRST_US, values.LAST_US, _unit_us(pg)),
        convert=values.to_instant(_unit_us(pg), zone),
        key=keys.instant,
        time_zone=zone.key,
    )


def _enum(pg: PgType) -> ValueType:
    if pg.in_domain and not pg.is_array:
        raise RefusedError(
            "Debezium's connector does not start while a database has a domain over an enum; DROP "
            "the domain, and use the enum itself"
        )
    if not pg.labels:
        raise RefusedError(
            "Debezium's connector does not start while a database has an enum without labels; add "
            "one with ALTER TYPE … ADD VALUE"
        )
    return ValueType(pg.text, "string", Literal[pg.labels], key=keys.text)


def _unit_us(pg: PgType) -> int:
    """Microseconds of the unit in which a time or timestamp of this precision comes."""
    return 1000 if pg.modifiers and pg.modifiers[0] <= _MILLISECOND_DIGITS_MAX else 1


_BY_MODIFIERS = {
    "numeric": _numeric,
    "time without time zone": _time,
    "timestamp without time zone": _timestamp,
}
_TEXTS = ("text", "character varying", "character", "json", "jsonb")
_DAYS = ("date", "timestamp without time zone", "timestamp with time zone")
_ARRAY_PLACEHOLDERS = {
    **{name: [PLACEHOLDER] for name in _TEXTS},
    **dict.fromkeys(("integer", "bigint", "date"), _PLACEHOLDER_NUMBERS),
    "bytea": [_PLACEHOLDER_BYTES],
    "uuid": [_PLACEHOLDER_UUID],
}
"""By the elements' type, as Debezium's UnchangedToastedPlaceholder. Of all others it sends null."""
