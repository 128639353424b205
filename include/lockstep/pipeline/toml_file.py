"""A TOML file against a model: every problem of it at once, with line, key and what to do.

The models are manifest.py's, source.py's and checks.py's, and the messages about one key alone are
made here. This module reads no file: it is given the text.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema

from lockstep.pipeline.errors import ManifestError, Problem, meant, shown
from lockstep.pipeline.toml_lines import KeyPath, lines_of

FORMAT_VERSION = 1
"""Of each of these files. It grows when a file of before would mean something else."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_CHOICE = re.compile(r"'([^']*)'")
_WANTED = {
    "string_type": "a string",
    "enum": "a string",
    "int_type": "an integer",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_FOUND = {bool: "a boolean", int: "an integer", Decimal: "a number", str: "a string"}
_FOUND |= {list: "a list", dict: "a table"}


def _version(version: object) -> object:
    if type(version) is not int:
        raise ValueError(f"must be {FORMAT_VERSION}")
    return version


FormatVersion = Annotated[
    int, BeforeValidator(_version), WithJsonSchema({"type": "integer", "const": FORMAT_VERSION})
]


class Strict(BaseModel):
    """A table of a file: an unknown key is an error, and nothing changes once it is read.

    refused: keys that people try, with what to do instead.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    refused: ClassVar[Mapping[str, str]] = {}


Model = TypeVar("Model", bound=Strict)


@dataclass(frozen=True)
class TomlFile:
    """What a file holds, and on which lines."""

    file: Path
    content: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem of the key at `path`, on its line, or that of the table it is missing in."""
        at = path
        while at not in self.lines:
            at = at[:-1]
        return Problem(self.file, self.lines[at], written(path), " ".join(message.split()))


@dataclass(frozen=True)
class Validated(Generic[Model]):
    """model: None if a key of the file is wrong. wrong: those of the top level that are."""

    model: Model | None
    problems: tuple[Problem, ...]
    wrong: frozenset[str]


def read_toml(text: str, file: Path) -> TomlFile:
    """Raises ManifestError when the text is no TOML, or of a format that is not known."""
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line = int(at[1]) if at and at[1] else text.count("\n") + 1
        message = f"is not valid TOML: {_AT.sub('', str(error))}"
        raise ManifestError([Problem(file, line, "", message)]) from None
    toml = TomlFile(file, content, lines_of(text))
    version = content.get("format_version", FORMAT_VERSION)
    if type(version) is int and version != FORMAT_VERSION:
        message = (
            f"is {version}, and this Lockstep reads {FORMAT_VERSION}: install one that reads "
            f"{version}, or write the file in format {FORMAT_VERSION}"
        )
        raise ManifestError([toml.problem(("format_version",), message)])
    return toml


def validate(model: type[Model], toml: TomlFile) -> Validated[Model]:
    """The file as a model, or every key of it that is unknown, missing or of no use."""
    try:
        return Validated(model.model_validate(dict(toml.content)), (), frozenset())
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = tuple(toml.problem(one["loc"], _message(model, one)) for one in errors)
    return Validated(None, problems, frozenset(str(one["loc"][0]) for one in errors if one["loc"]))


def written(path: KeyPath) -> str:
    """A path as it is written in TOML, with the index of a list's element in brackets."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _BARE_KEY.fullmatch(key):
            text += f".{key}"
        else:
            text += f".{json.dumps(key, ensure_ascii=False)}"
    return text.removeprefix(".")


def _message(model: type[Strict], error: Mapping[str, Any]) -> str:
    """In plain words, and in TOML's terms, what pydantic has found."""
    kind, found = error["type"], error["input"]
    match kind:
        case "missing":
            table = _table_at(model, error["loc"][:-1])
            return f"is missing: {table.model_fields[error['loc'][-1]].description}"
        case "extra_forbidden":
            return _unknown(_table_at(model, error["loc"][:-1]), str(error["loc"][-1]))
        case "value_error":
            return str(error["ctx"]["error"])
        case "enum" if isinstance(found, str):
            known = _CHOICE.findall(error["ctx"]["expected"])
            return f"{shown(found)} is not known: {meant(found, known)}"
        case _ if kind in _WANTED:
            return f"must be {_WANTED[kind]}, and is {_FOUND.get(type(found), 'a date or time')}"
    raise AssertionError(f"{kind} has no message: {error['msg']}")


def _unknown(table: type[Strict], key: str) -> str:
    if key in table.refused:
        return table.refused[key]
    return f"is no key of this table: {meant(key, list(table.model_fields))}"


def _table_at(model: type[Strict], path: KeyPath) -> type[Strict]:
    """The model of a table inside another."""
    for key in path:
        if isinstance(key, int):
            continue  # an element of the list before it
        annotation = model.model_fields[key].annotation
        choices = (annotation, *get_args(annotation))
        [model] = [one for one in choices if isinstance(one, type) and issubclass(one, Strict)]
    return model
