"""PostgreSQL's names of types, taken apart, and the types that are refused with what to do instead.

The names are those that format_type writes (PostgreSQL's manual, "System Catalog Information
Functions"), as a catalog has them. What a type is in Delta, Arrow and Python is never here: that is
types.py.
"""

import re
from dataclasses import dataclass

from lockstep.pipeline.catalog import Catalog

PRECISION_MAX = 38
"""Digits of a decimal in Delta, Spark and Arrow's decimal128."""
_BUILT_IN = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*(?: [a-z]+)*?)"
    r"(?:\((?P<first>-?\d+)(?:,(?P<second>-?\d+))?\))?"
    r"(?P<zone> with(?:out)? time zone)?"
)
_ALTER = "change the column's type, or leave the column out of the query"
_RANGES = [
    f"{of}{kind}"
    for of in ("int4", "int8", "num", "date", "ts", "tstz")
    for kind in ("range", "multirange")
]
_REMEDIES = {
    "money": "its text depends on the server's lc_monetary; numeric(19,2) is exact",
    "interval": "Debezium sends an approximate number of microseconds; keep its parts in columns "
    "of their own, such as seconds in a bigint",
    "time with time zone": "it has no counterpart in Delta; use timestamp with time zone",
    "xml": "it has no counterpart in Delta; text holds it",
    "hstore": "it has no counterpart in Delta; jsonb holds it",
    "citext": "it compares without regard to case and Delta does not, so that joins and keys would "
    "differ; use text, and lower() in a unique index",
    "bit": "it has no counterpart in Delta; use boolean, or bytea",
    "bit varying": "it has no counterpart in Delta; use boolean, or bytea",
    "bpchar": "char without a length has no counterpart in Delta; use text",
    **dict.fromkeys(_RANGES, "a range has no counterpart in Delta; keep its bounds in two columns"),
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography"),
        "a geometric type has no counterpart in Delta; keep its coordinates in columns of numbers",
    ),
}
"""Why a type is refused and what holds its values exactly, by PostgreSQL's name."""
_UNKNOWN = "it is no type that Lockstep reads, such as a composite type or one of an extension"


class RefusedError(ValueError):
    """Why a type is refused; the caller adds table and column."""


@dataclass(frozen=True)
class PgType:
    """A type with its domains resolved.

    text: as format_type writes it, without domains. name: without modifiers and brackets, such as
    `numeric` or `timestamp without time zone`; of an enum the enum's name. modifiers: (10, 2) of
    numeric(10,2). labels: of an enum, in their order, else None. in_domain: whether a domain was
    resolved.
    """

    text: str
    name: str
    modifiers: tuple[int, ...] = ()
    labels: tuple[str, ...] | None = None
    is_array: bool = False
    in_domain: bool = False


def parse_type(text: str, catalog: Catalog) -> PgType:
    """Take a type's name apart. Raises RefusedError for what is no type of this catalog."""
    base = _without_domains(text, catalog)
    is_array = base.endswith("[]")
    element = base.removesuffix("[]")
    in_domain = base != text
    if is_array and element in catalog.domains:
        raise RefusedError(
            f"Debezium leaves arrays of a domain out of its events; {_ALTER}, to an array of "
            f"{_without_domains(element, catalog)}"
        )
    if element in catalog.enums:
        labels = catalog.enums[element]
        return PgType(base, element, labels=labels, is_array=is_array, in_domain=in_domain)
    match = _BUILT_IN.fullmatch(element)
    if match is None:
        raise refused_type(element)
    modifiers = tuple(int(found) for found in match.group("first", "second") if found is not None)
    name = match["name"] + (match["zone"] or "")
    return PgType(base, name, modifiers, is_array=is_array, in_domain=in_domain)


def require_decimal(modifiers: tuple[int, ...]) -> tuple[int, int]:
    """Precision and scale of a numeric type. Raises RefusedError when Delta has no such decimal."""
    if not modifiers:
        raise RefusedError(
            "without a precision it holds more digits than a decimal of Delta; ALTER the column to "
            f"numeric(p,s) with p <= {PRECISION_MAX}, or leave the column out of the query"
        )
    precision, scale = (*modifiers, 0)[:2]
    if precision > PRECISION_MAX or not 0 <= scale <= precision:
        raise RefusedError(
            f"a decimal of Delta has at most {PRECISION_MAX} digits and a scale from 0 to its "
            "precision; ALTER the column to such a numeric, or leave the column out of the query"
        )
    return precision, scale


def refused_type(name: str) -> RefusedError:
    """Why a type with no row in the table of types is refused, and what to do."""
    known = "interval" if name.startswith("interval ") else name.rpartition(".")[2]
    return RefusedError(f"{_REMEDIES.get(known, _UNKNOWN)}; {_ALTER}")


def _without_domains(text: str, catalog: Catalog) -> str:
    """The type that a domain is over, however many domains lie between."""
    for _ in range(len(catalog.domains)):
        text = catalog.domains.get(text, text)
    return text
