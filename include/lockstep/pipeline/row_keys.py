"""The keys of a result's rows: as canonical text, as people write them, and as conditions. Pure."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.types import key_text

Key = tuple[Any, ...]
"""The values of a key's columns, in their order, as Delta's tables give them."""


def named(names: Sequence[str], key: Key) -> str:
    """A key for people, such as `site A, number 7`."""
    return ", ".join(f"{name} {value}" for name, value in zip(names, key, strict=True))


@dataclass(frozen=True)
class RowKeys:
    """names: the key's columns in the result. types: of the fact's columns that they copy."""

    names: tuple[str, ...]
    types: Sequence[ValueType]

    def text(self, key: Key) -> str:
        """A JSON array, equal for two keys if and only if PostgreSQL holds them for equal."""
        return key_text(key, self.types)

    def read(self, text: str) -> Key:
        """The key that a text stands for: its canonical text, or the plain value of one column.

        Raises PipelineError for a text that is no key.
        """
        try:
            found = self._of_array(text) if text.lstrip().startswith("[") else None
            if found is None and len(self.names) == 1:
                found = (_READ[_kind(self.types[0])](text),)
        except (ValueError, InvalidOperation, binascii.Error, TypeError):
            found = None
        if found is None:
            raise PipelineError(f"{text} is no key ({', '.join(self.names)}): write {self._form()}")
        return found

    def shown(self, text: str) -> str:
        """A canonical text for people: of one column its plain value."""
        values = json.loads(text, parse_float=str, parse_int=str)
        return str(values[0]) if len(values) == 1 else text

    def condition(self, keys: Iterable[Key]) -> str:
        """SQL of DataFusion, as delta-rs takes it, that holds of the rows of these keys."""
        keys = list(keys)
        if not keys:
            return "false"
        if len(self.names) == 1:
            values = ", ".join(self._literal(0, key[0]) for key in keys)
            return f"{quoted(self.names[0])} IN ({values})"
        return _any_of([self._is(key) for key in keys])

    def _is(self, key: Key) -> str:
        parts = (
            f"{quoted(name)} = {self._literal(place, key[place])}"
            for place, name in enumerate(self.names)
        )
        return f"({' AND '.join(parts)})"

    def _literal(self, place: int, value: Any) -> str:
        return _LITERAL[_kind(self.types[place])](value, self.types[place].delta)

    def _of_array(self, text: str) -> Key | None:
        tokens = json.loads(text, parse_float=str, parse_int=str)
        if len(tokens) != len(self.names):
            return None
        return tuple(
            token if isinstance(token, bool) else _READ[_kind(one)](token)
            for token, one in zip(tokens, self.types, strict=True)
        )

    def _form(self) -> str:
        columns = ", ".join(f"a {one.delta}" for one in self.types)
        array = f"a JSON array of {columns}"
        return f"a {self.types[0].delta}, or {array}" if len(self.names) == 1 else array


def quoted(name: str) -> str:
    """A name in DataFusion's SQL, whatever its characters."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _any_of(conditions: Sequence[str]) -> str:
    """Nested in halves: a chain of a thousand takes DataFusion a second and more to plan."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return f"({_any_of(conditions[:half])} OR {_any_of(conditions[half:])})"


def _kind(type_: ValueType) -> str:
    return type_.delta.partition("(")[0]


def literal(value: str) -> str:
    """A text in DataFusion's SQL, which has no bound values."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text} is no boolean")
    return text == "true"


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("smallint", "int", "bigint"), int),
    "boolean": _boolean,
    "decimal": Decimal,
    "string": str,
    "binary": lambda text: base64.b64decode(text, validate=True),
    "date": date.fromisoformat,
    "timestamp": _instant,
}
_LITERAL: dict[str, Callable[[Any, str], str]] = {
    **dict.fromkeys(("smallint", "int", "bigint"), lambda value, _: str(int(value))),
    "boolean": lambda value, _: str(bool(value)).lower(),
    "decimal": lambda value, delta: f"CAST('{value:f}' AS {delta.upper()})",
    "string": lambda value, _: literal(value),
    "binary": lambda value, _: f"X'{value.hex()}'",
    "date": lambda value, _: f"DATE '{value.isoformat()}'",
    # delta-rs 1.6 refuses a TIMESTAMP in the predicate of a write, and reads a text as what it is
    # compared with.
    "timestamp": lambda value, _: f"'{value.astimezone(UTC).isoformat()}'",
}
