"""A pipeline's checks.toml: what its author expects of each row of the hourly table.

What the file itself can have wrong is judged here, and what it has wrong against the result's
columns. SQL is evaluated, and checks are made, by lockstep.quality. Pure: the text is given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from lockstep.pipeline.errors import ManifestError, Problem, meant, shown
from lockstep.pipeline.expectations import ARGUMENTS, argument_findings
from lockstep.pipeline.fields import Text
from lockstep.pipeline.toml_file import FormatVersion, Strict, TomlFile, read_toml, validate
from lockstep.pipeline.toml_lines import KeyPath

CHECKS_FILE = "checks.toml"
_NO_SCALARS = ("array", "map", "struct", "binary")

Finding = tuple[KeyPath, str]


class Severity(StrEnum):
    """FAIL keeps the window from those who wait for it, WARN is reported and lets it pass."""

    FAIL = "fail"
    WARN = "warn"


def _expectation(name: object) -> object:
    if isinstance(name, str) and name not in ARGUMENTS:
        raise ValueError(
            f"{shown(name)} is none that a check can have: {meant(name, list(ARGUMENTS))}"
        )
    return name


class Derived(Strict):
    """A scalar that is made of each row, for checks to be about."""

    name: Text = Field(description="what checks call it by `column`")
    each: Text | None = Field(
        None,
        description="an array of the result: `sql` is then an aggregate over its elements, each "
        "called item",
    )
    sql: Text = Field(
        description="an expression of DataFusion's SQL over the columns of a row, or over item"
    )


class AuthorCheck(Strict):
    """One expectation of Great Expectations, of each row of a window."""

    name: Text = Field(description="the check's name, in reports and pages")
    severity: Severity = Field(description="fail keeps the window back, warn is only reported")
    column: Text = Field(description="a column of the result, or the name of a derived scalar")
    expectation: Annotated[
        str,
        BeforeValidator(_expectation),
        WithJsonSchema({"type": "string", "enum": sorted(ARGUMENTS)}),
    ] = Field(description="a class of great_expectations.expectations")
    arguments: Mapping[str, Any] = Field(
        {}, description="the expectation's own, without its column; mostly: the share that suffices"
    )
    expected: Text = Field(description="for people: what is expected")


class ChecksManifest(Strict):
    """checks.toml: checks in addition to those that every pipeline has."""

    format_version: FormatVersion = Field(description="the format of this file: 1")
    derived: tuple[Derived, ...] = Field((), description="scalars that are made of each row")
    check: tuple[AuthorCheck, ...] = Field((), description="what is expected of each row")


NO_CHECKS = ChecksManifest(format_version=1)
"""Of a pipeline without the file."""


@dataclass(frozen=True)
class Checks:
    """The file as it was read: toml says where its keys are."""

    toml: TomlFile
    manifest: ChecksManifest

    def against(self, columns: Mapping[str, str]) -> ChecksManifest:
        """The manifest, for a result of these columns and Delta types.

        Raises ManifestError with each name that is not among them, or of a type of no use.
        """
        self._require([*_of_derived(self.manifest, columns), *_of_checks(self.manifest, columns)])
        return self.manifest

    def require_other_names(self, names: list[str]) -> None:
        """Raises ManifestError for each check that has the name of one of Lockstep's own."""
        message = "is the name of a check that every pipeline has: choose another"
        self._require(
            (("check", place, "name"), message)
            for place, check in enumerate(self.manifest.check)
            if check.name in names
        )

    def problem_of_sql(self, place: int, reason: str) -> Problem:
        """Of the derived scalar at a place, when its SQL cannot be used."""
        sql = " ".join(self.manifest.derived[place].sql.split())
        return self.toml.problem(("derived", place, "sql"), f"`{sql}` cannot be used: {reason}")

    def _require(self, findings: Iterator[Finding] | list[Finding]) -> None:
        if problems := [self.toml.problem(*one) for one in findings]:
            raise ManifestError(problems)


def read_checks(text: str, file: Path) -> Checks:
    """The checks of a file's text. Raises ManifestError with every problem of its own."""
    toml = read_toml(text, file)
    read = validate(ChecksManifest, toml)
    if read.model is None:
        raise ManifestError(read.problems)
    checks = Checks(toml, read.model)
    if problems := [toml.problem(*one) for one in _findings(read.model)]:
        raise ManifestError(problems)
    return checks


def _findings(manifest: ChecksManifest) -> Iterator[Finding]:
    for table, named in (("derived", manifest.derived), ("check", manifest.check)):
        names = [one.name for one in named]
        for place, name in enumerate(names):
            if name in names[:place]:
                yield (table, place, "name"), f"{shown(name)} is there twice: rename one"
    for place, check in enumerate(manifest.check):
        for path, message in argument_findings(check.expectation, check.arguments):
            yield ("check", place, "arguments", *path), message


def _of_derived(manifest: ChecksManifest, columns: Mapping[str, str]) -> Iterator[Finding]:
    for place, one in enumerate(manifest.derived):
        if one.name in columns:
            yield ("derived", place, "name"), f"{one.name} is a column of the result: rename it"
        if one.each is None:
            continue
        if one.each not in columns:
            yield ("derived", place, "each"), _no_column(one.each, list(columns))
        elif not columns[one.each].startswith("array"):
            message = f"{one.each} is {columns[one.each]} and no array: remove `each`"
            yield ("derived", place, "each"), message


def _of_checks(manifest: ChecksManifest, columns: Mapping[str, str]) -> Iterator[Finding]:
    derived = {one.name for one in manifest.derived}
    for place, check in enumerate(manifest.check):
        type_ = columns.get(check.column, "")
        if check.column not in derived and not type_:
            yield ("check", place, "column"), _no_column(check.column, sorted({*columns, *derived}))
        elif type_.startswith(_NO_SCALARS):
            message = (
                f"{check.column} is {type_}: make a scalar of it by [[derived]], and name that"
            )
            yield ("check", place, "column"), message


def _no_column(name: str, known: list[str]) -> str:
    return f"the result has no column {name}: {meant(name, known)}"
