"""The mutants of mutants.toml, and how one of them is put into a copy of the library.

A mutant is one small fault: a text of one file, and the text that takes its place. Never imports
the library: what is read here may be broken on purpose.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CATALOG = Path(__file__).with_name("mutants.toml")
LIBRARY = "include"


class MutantError(Exception):
    """The mutant does not fit the library any more, and must be written again."""


@dataclass(frozen=True)
class Mutant:
    """file: below include/. goes_wrong: for a user, in one sentence.

    tests: files or node ids; of each of them at least one test must fail.
    """

    id: str
    file: str
    before: str
    after: str
    goes_wrong: str
    tests: tuple[str, ...]

    def put_into(self, project: Path) -> None:
        """Change the file of a copy of the project. Raises MutantError, and changes nothing."""
        path = project / LIBRARY / self.file
        if not path.is_file():
            raise MutantError(f"{LIBRARY}/{self.file} is not there")
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.before)) != 1:
            raise MutantError(f"its text is {count} times in {LIBRARY}/{self.file}, not once")
        if self.after == self.before:
            raise MutantError("it changes nothing")
        path.write_text(text.replace(self.before, self.after), encoding="utf-8")


def read_mutants(text: str) -> list[Mutant]:
    """Raises TypeError when a mutant lacks a field or has another one, KeyError without any."""
    found = tomllib.loads(text)["mutants"]
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in found]


def all_mutants() -> list[Mutant]:
    return read_mutants(CATALOG.read_text(encoding="utf-8"))
