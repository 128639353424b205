"""checks.toml: what is read of it, and the whole text of each refusal."""

from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.pipeline.checks import Checks, Severity, read_checks
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.expectations import ARGUMENTS

FILE = Path("include", "sql", "lots", "checks.toml")
GOOD = """\
format_version = 1
[[derived]]
name = "highest"
each = "marks"
sql = "max(item)"
[[check]]
name = "marks plausible"
severity = "warn"
column = "highest"
expectation = "ExpectColumnValuesToBeBetween"
arguments = { max_value = 9.5, mostly = 0.9 }
expected = "at most 9.5"
[[check]]
name = "weight known"
severity = "fail"
column = "weight"
expectation = "ExpectColumnValuesToNotBeNull"
expected = "known"
"""
COLUMNS = {"lot": "string", "weight": "decimal(12,3)", "marks": "array<int>"}


def problems_of(text: str) -> list[str]:
    """What is wrong with a text, against COLUMNS too, without the file's name."""
    try:
        read_checks(text, FILE).against(COLUMNS)
    except ManifestError as error:
        return [str(problem).removeprefix(f"{FILE}:") for problem in error.problems]
    return []


def read(text: str = GOOD) -> Checks:
    return read_checks(text, FILE)


def test_checks_are_read_as_they_are_written() -> None:
    manifest = read().against(COLUMNS)
    [derived] = manifest.derived
    assert (derived.name, derived.each, derived.sql) == ("highest", "marks", "max(item)")
    plausible, known = manifest.check
    assert plausible.severity is Severity.WARN
    assert plausible.arguments == {"max_value": Decimal("9.5"), "mostly": Decimal("0.9")}
    assert (known.column, known.arguments, known.expected) == ("weight", {}, "known")


def test_a_file_without_checks_is_one() -> None:
    assert read("format_version = 1").against(COLUMNS).check == ()


BROKEN = {
    "a key misspelled": (
        'severity = "warn"',
        'severty = "warn"',
        [
            "6: check[0].severity: is missing: fail keeps the window back, warn is only reported",
            "8: check[0].severty: is no key of this table: did you mean severity?",
        ],
    ),
    "a severity unknown": (
        '"warn"',
        '"warning"',
        ['8: check[0].severity: "warning" is not known: did you mean warn?'],
    ),
    "an expectation unknown": (
        '"ExpectColumnValuesToNotBeNull"',
        '"ExpectColumnValuesNotToBeNull"',
        [
            (
                '17: check[1].expectation: "ExpectColumnValuesNotToBeNull" is none that a check '
                "can have: did you mean ExpectColumnValuesToBeNull or "
                "ExpectColumnValuesToNotBeNull or ExpectColumnValuesToBeUnique?"
            )
        ],
    ),
    "an argument misspelled": (
        "max_value = 9.5",
        "max_vlaue = 9.5",
        [
            (
                "11: check[0].arguments: has no bound: ExpectColumnValuesToBeBetween needs "
                "min_value, max_value, or both"
            ),
            (
                "11: check[0].arguments.max_vlaue: is no argument of "
                "ExpectColumnValuesToBeBetween: did you mean max_value or min_value?"
            ),
        ],
    ),
    "an argument of another type": (
        "mostly = 0.9",
        "mostly = 90",
        ["11: check[0].arguments.mostly: 90 is not a share: write a number from 0 to 1"],
    ),
    "a bound without a zone": (
        "max_value = 9.5",
        "max_value = 2024-05-01T10:00:00",
        [
            (
                "11: check[0].arguments.max_value: 2024-05-01 10:00:00 is not a bound: write a "
                "number, a date or a time with its zone"
            )
        ],
    ),
    "a set of dates": (
        '"ExpectColumnValuesToNotBeNull"',
        '"ExpectColumnValuesToBeInSet"\narguments = { value_set = [2024-05-01] }',
        [
            (
                '18: check[1].arguments.value_set: ["2024-05-01"] is not a list of strings, '
                "numbers or booleans"
            )
        ],
    ),
    "an argument missing": (
        '"ExpectColumnValuesToNotBeNull"',
        '"ExpectColumnValuesToBeInSet"',
        [
            (
                "13: check[1].arguments.value_set: is missing: ExpectColumnValuesToBeInSet needs a "
                "list of strings, numbers or booleans"
            )
        ],
    ),
    "arguments that are no table": (
        "arguments = { max_value = 9.5, mostly = 0.9 }",
        "arguments = 9",
        ["11: check[0].arguments: must be a table, and is an integer"],
    ),
    "a name twice": (
        '"weight known"',
        '"marks plausible"',
        ['14: check[1].name: "marks plausible" is there twice: rename one'],
    ),
    "a column that the result has not": (
        'column = "weight"',
        'column = "wieght"',
        ["16: check[1].column: the result has no column wieght: did you mean weight or highest?"],
    ),
    "a column that is an array": (
        'column = "weight"',
        'column = "marks"',
        [
            (
                "16: check[1].column: marks is array<int>: make a scalar of it by [[derived]], and "
                "name that"
            )
        ],
    ),
    "an array that is none": (
        'each = "marks"',
        'each = "lot"',
        ["4: derived[0].each: lot is string and no array: remove `each`"],
    ),
    "an array that the result has not": (
        'each = "marks"',
        'each = "mark"',
        ["4: derived[0].each: the result has no column mark: did you mean marks?"],
    ),
    "a derived scalar with a column's name": (
        'name = "highest"',
        'name = "lot"',
        [
            "3: derived[0].name: lot is a column of the result: rename it",
            "9: check[0].column: the result has no column highest: did you mean weight?",
        ],
    ),
    "no version": (
        "format_version = 1\n",
        "",
        ["1: format_version: is missing: the format of this file: 1"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_line_key_and_remedy(name: str) -> None:
    old, new, problems = BROKEN[name]
    assert GOOD.count(old) == 1
    assert problems_of(GOOD.replace(old, new)) == problems


def test_every_expectation_is_one_of_great_expectations() -> None:
    expectations = pytest.importorskip("great_expectations").expectations
    for name, arguments in ARGUMENTS.items():
        fields = getattr(expectations, name).__fields__
        assert {"column", "mostly", *arguments} <= fields.keys(), name
