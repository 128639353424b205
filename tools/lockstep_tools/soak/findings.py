"""What a check has to say: nothing, or findings. Values only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

EXAMPLES_MAX = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which check found it, of what, how often, and the first cases."""

    check: str
    subject: str
    text: str
    count: int = 1
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        cases = "".join(f"\n    {example}" for example in self.examples)
        return f"{self.subject}: {self.text} ({self.check}, {self.count} times){cases}"


def findings_of(check: str, subject: str, text: str, cases: Sequence[object]) -> list[Finding]:
    """One finding for all the cases, with the first of them as examples; none for none."""
    if not cases:
        return []
    return [Finding(check, subject, text, len(cases), first_of(cases))]


def first_of(cases: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(case) for case in islice(cases, EXAMPLES_MAX))
