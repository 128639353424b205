"""Types of values that manifests share: durations, tables, columns, lists without repeats.

Each says what is wrong with a value, and has its JSON Schema for editors.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import shown

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_UNITS["s"] = timedelta(seconds=1)
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_TABLE = re.compile(r"(?:[^.]+\.)?[^.]+")


def parse_duration(text: object) -> timedelta:
    """`30s`, `5m`, `1h` or `1d` as a duration. Raises ValueError for anything else."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ValueError(
            f"{shown(text)} is no duration: write a number and s, m, h or d, such as 5m"
        )
    return int(found[1]) * _UNITS[found[2]]


def written_duration(duration: timedelta) -> str:
    """In the greatest unit that has no rest: `90m`, not `1.5h`."""
    unit = next(name for name, unit in _UNITS.items() if not duration % unit)
    return f"{duration // _UNITS[unit]}{unit}"


def parse_table(text: object) -> TableName:
    """`schema.table`, or `table` of public. Raises ValueError for anything else."""
    if not isinstance(text, str) or not _TABLE.fullmatch(text):
        raise ValueError(
            f"{shown(text)} names no table: write `schema.name`, or `name` if it is in public"
        )
    return TableName.parse(text)


def without_repeats(values: Sequence[Any]) -> Sequence[Any]:
    """The values themselves. Raises ValueError when one is there twice."""
    for at, value in enumerate(values):
        if value in values[:at]:
            raise ValueError(f"has {shown(value)} twice: remove one")
    return values


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(written_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["1h"]}),
]
Table = Annotated[
    TableName,
    BeforeValidator(parse_table),
    WithJsonSchema({"type": "string", "pattern": f"^{_TABLE.pattern}$"}),
]
Text = Annotated[str, AfterValidator(_not_empty), Field(json_schema_extra={"minLength": 1})]
Unrepeated = AfterValidator(without_repeats)
