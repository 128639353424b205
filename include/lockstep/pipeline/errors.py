"""What can be wrong with a pipeline's folder. Each error names the file and says what to do."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Self

from lockstep.errors import LockstepError

SHOWN_CHARACTERS_MAX = 60
"""Of a query's text in a message: enough to see which place is meant."""


class PipelineError(LockstepError):
    """A source's or a pipeline's folder cannot be used as it is."""

    restart_helps = False


class CatalogError(PipelineError):
    """catalog.lock is missing, damaged, or does not have what is asked for."""


@dataclass(frozen=True, order=True)
class Problem:
    """file: below the project's folder. line: from 1. key: as in the file; empty: of it as a whole.

    message: what is wrong and what to do, on one line.
    """

    file: Path
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        of = f"{self.key}: " if self.key else ""
        return f"{self.file}:{self.line}: {of}{self.message}"


class ManifestError(PipelineError):
    """A folder of a source or a pipeline has problems: a line for each, by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class TypeRefusedError(PipelineError):
    """A column's type cannot be captured exactly, so that no pipeline may read it."""

    def __init__(self, table: str, column: str, type_: str, why: str, place: str = "") -> None:
        """place: where a query reads the column, as file, line and column of the text."""
        at = f"{place}: " if place else ""
        super().__init__(f"{at}table {table}, column {column}: type {type_} is refused: {why}")
        self.table, self.column, self.type, self.why = table, column, type_, why

    def read_at(self, place: str) -> Self:
        """The same error of a query that reads the column there."""
        return type(self)(self.table, self.column, self.type, self.why, place)


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text as editors count it: the first character is line 1, column 1."""

    line: int
    column: int


class QueryRefusedError(PipelineError):
    """A pipeline's query cannot be used. position: in the author's file."""

    def __init__(
        self, file: Path, position: Position, text: str, *, why: str, remedy: str = ""
    ) -> None:
        place = f"{file}:{position.line}:{position.column}"
        advice = f": {remedy}" if remedy else ""
        super().__init__(f"{place}: `{shortened(text)}`: {why}{advice}")
        self.file, self.position, self.text = file, position, text
        self.why, self.remedy = why, remedy


def shortened(text: str) -> str:
    """One line of at most SHOWN_CHARACTERS_MAX characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS_MAX else f"{line[: SHOWN_CHARACTERS_MAX - 1]}…"


def meant(name: str, known: list[str]) -> str:
    """What to add to a message about an unknown name: the known ones that are alike, or all."""
    alike = get_close_matches(name, known, n=3)
    if alike:
        return f"did you mean {' or '.join(alike)}?"
    return f"there are: {', '.join(sorted(known))}" if known else "there is none"


def shown_value(value: object) -> str:
    """A value of a row as a table for people has it; null is a word."""
    return "null" if value is None else shown(value)


def shown(value: object) -> str:
    """A value as a message has it: on one line, strings in quotes, as TOML writes it."""
    if isinstance(value, str | bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
