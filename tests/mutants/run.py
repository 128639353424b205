"""Runs mutants: `python -m tests.mutants.run [ID…] [--jobs N]`.

1. The tests of all chosen mutants run once in a copy without any: they must be green.
2. For each mutant, a copy of its own is changed, and the mutant's tests run in it.

A mutant is killed when of each test or file of tests that it names at least one test fails. The
working tree is only read.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutants.catalog import Mutant, MutantError, all_mutants
from tests.mutants.project_copy import Outcome, copy_project, run_tests

UNCHANGED_SECONDS_MAX = 900.0
"""For the tests of all mutants in one process, those of Spark among them, on two busy cores."""
MUTANT_SECONDS_MAX = 300.0
"""For one mutant; the slowest takes a minute on two busy cores."""
COLUMNS = 110
"""Of the table, also where the output is no terminal."""


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "broken"


COLOURS = {Verdict.KILLED: "green", Verdict.SURVIVED: "bold red", Verdict.BROKEN: "yellow"}


@dataclass(frozen=True)
class Result:
    """why: the first test that failed, the tests that did not, or what is broken."""

    mutant: Mutant
    verdict: Verdict
    why: str
    seconds: float


def main(
    ids: Annotated[list[str] | None, typer.Argument(help="Only these mutants.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants that are run at once.")] = 1,
) -> None:
    """Put each mutant into a copy of the library, and see whether its tests fail.

    Exits with 1 unless all are killed.
    """
    console = Console(highlight=False)
    console.width = max(console.width, COLUMNS)
    mutants = _chosen(ids or [])
    with console.status("running the tests without a mutant …"):
        unchanged = _unchanged(mutants)
    if unchanged.red or not unchanged.has_run:
        console.print("[bold red]broken[/]: without a mutant the tests are not green")
        console.print(escape(unchanged.output))
        raise typer.Exit(1)
    console.print(f"without a mutant the tests are green, {unchanged.seconds:.0f} s")
    results = []
    for result in _results(mutants, jobs):
        results.append(result)
        console.print(_line(result), soft_wrap=True)
    console.print(_table(sorted(results, key=lambda one: mutants.index(one.mutant))))
    if any(one.verdict is not Verdict.KILLED for one in results):
        raise typer.Exit(1)


def _chosen(ids: Collection[str]) -> list[Mutant]:
    mutants = all_mutants()
    if unknown := set(ids) - {one.id for one in mutants}:
        raise typer.BadParameter(f"no mutant is called {', '.join(sorted(unknown))}")
    return [one for one in mutants if not ids or one.id in ids]


def _unchanged(mutants: Sequence[Mutant]) -> Outcome:
    tests = sorted({test for one in mutants for test in one.tests})
    with TemporaryDirectory(prefix="unchanged-") as folder:
        return run_tests(copy_project(Path(folder)), tests, UNCHANGED_SECONDS_MAX)


def _results(mutants: Sequence[Mutant], jobs: int) -> Iterator[Result]:
    """As they come."""
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_mutant, one) for one in mutants]
        try:
            for done in as_completed(running):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # of a run that is interrupted


def run_mutant(mutant: Mutant) -> Result:
    """Run a mutant's tests in a copy of the project that has it."""
    with TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        project = copy_project(Path(folder))
        try:
            mutant.put_into(project)
        except MutantError as error:
            return Result(mutant, Verdict.BROKEN, str(error), 0.0)
        outcome = run_tests(project, mutant.tests, MUTANT_SECONDS_MAX)
    verdict, why = judged(mutant, outcome)
    return Result(mutant, verdict, why, outcome.seconds)


def judged(mutant: Mutant, outcome: Outcome) -> tuple[Verdict, str]:
    """What became of a mutant whose tests came out like this, and why."""
    if not outcome.has_run:
        return Verdict.BROKEN, f"its tests could not be run: {outcome.output}"
    green = [test for test in mutant.tests if not _is_red(test, outcome.red)]
    if green:
        return Verdict.SURVIVED, f"no test failed of {', '.join(green)}"
    return Verdict.KILLED, outcome.red[0]


def _is_red(test: str, red: Collection[str]) -> bool:
    return any(one == test or one.startswith((f"{test}::", f"{test}[")) for one in red)


def _line(result: Result) -> str:
    verdict = f"[{COLOURS[result.verdict]}]{result.verdict}[/]"
    line = f"{verdict} {result.mutant.id}"
    if result.verdict is Verdict.KILLED:
        return line
    return f"{line}: {escape(result.mutant.goes_wrong)} {escape(result.why)}"


def _table(results: Sequence[Result]) -> Table:
    killed = sum(one.verdict is Verdict.KILLED for one in results)
    table = Table(box=None, title=f"{killed} of {len(results)} mutants are killed")
    for title in ("mutant", "file", ""):
        table.add_column(title, overflow="fold")
    table.add_column("seconds", justify="right")
    for one in results:
        verdict = f"[{COLOURS[one.verdict]}]{one.verdict}[/]"
        file = one.mutant.file.removeprefix("lockstep/")
        table.add_row(one.mutant.id, file, verdict, f"{one.seconds:.1f}")
    return table


if __name__ == "__main__":
    typer.run(main)
