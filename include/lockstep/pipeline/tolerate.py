"""The table `tolerate` of pipeline.toml: what each mode may differ by from the hourly run.

Only Tolerable's classes can be tolerated, whatever a manifest says. Which class a
difference is of is found by the comparison, not here.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from lockstep.pipeline.errors import shown
from lockstep.pipeline.fields import Unrepeated
from lockstep.pipeline.modes import Mode, Tolerable
from lockstep.pipeline.toml_file import Strict

_FLOATS = ("double", "float")
RACED_SHARE_MAX = Decimal("0.01")
"""A look-up asks half a second after the commit, and a restart of its driver delays those of half a
minute: less than 1 % of an hour, even if all it looks up is renamed meanwhile."""
RACED_ROWS_ALWAYS = 10
"""1 % of 1,000 rows: a quiet hour does not fail by a row or two."""


def _only_look_ups_race(classes: tuple[Tolerable, ...]) -> tuple[Tolerable, ...]:
    if Tolerable.LOOKUP_RACE in classes:
        raise ValueError("has lookup_race, and only the mode lookup looks up: remove it")
    return classes


def _share(share: object) -> object:
    is_number = type(share) in (int, Decimal) and Decimal(share).is_finite()
    if not is_number or not 0 <= share <= 1:
        raise ValueError(f"{shown(share)} is no share: write a number from 0 to 1")
    return share


def _count(count: object) -> object:
    if type(count) is not int or count < 0:
        raise ValueError(f"{shown(count)} is no number of rows: write an integer, 0 or more")
    return count


Share = Annotated[
    Decimal,
    BeforeValidator(_share),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
Classes = Annotated[tuple[Tolerable, ...], Unrepeated]
OfOtherModes = Annotated[Classes, AfterValidator(_only_look_ups_race)]


def differing_places(same: Iterable[str]) -> str:
    """An array, in Spark's SQL, of the places of those conditions that do not hold."""
    found = ", ".join(f"IF({condition}, NULL, {n})" for n, condition in enumerate(same))
    return f"FILTER(CAST(ARRAY({found}) AS ARRAY<INT>), n -> n IS NOT NULL)"


class Tolerate(Strict):
    """The differences from the hourly run that do not fail a window, by mode. Others always do."""

    lookup: Classes = Field((), description="the classes that mode lookup may differ by")
    outbox: OfOtherModes = Field((), description="the classes that mode outbox may differ by")
    message: OfOtherModes = Field((), description="the classes that mode message may differ by")
    temporal: OfOtherModes = Field((), description="the classes that mode temporal may differ by")
    transaction: OfOtherModes = Field(
        (), description="the classes that mode transaction may differ by"
    )
    raced_share_max: Share = Field(
        RACED_SHARE_MAX,
        description="of a window's rows, the share that may be a tolerated lookup_race: more "
        "means that the look-ups come late",
        json_schema_extra={"default": float(RACED_SHARE_MAX)},
    )
    raced_rows_always: Annotated[
        int, BeforeValidator(_count), WithJsonSchema({"type": "integer", "minimum": 0})
    ] = Field(
        RACED_ROWS_ALWAYS,
        description="the number of a window's rows that may be a tolerated lookup_race, also when "
        "it is more than the share",
    )

    float_epsilon: Share = Field(
        Decimal(0),
        description="how much two values of a column of type double or float may differ, as a "
        "share of the smaller one, and still be the same; for a view's values, which PostgreSQL "
        "sums up in another order than Spark",
    )

    def same(self, kind: str, one: str, other: str) -> str:
        """The condition, in Spark's SQL, for two values of a type being the same; null equals null.

        Of a double also for one that is near enough. As a share of the smaller one: no number is
        near an infinite one, none near NaN, which for Spark exceeds all.
        """
        if not self.float_epsilon or kind not in _FLOATS:
            return f"{one} <=> {other}"
        nearest = f"{float(self.float_epsilon)!r}D * LEAST(ABS({one}), ABS({other}))"
        return f"({one} <=> {other} OR COALESCE(ABS({one} - {other}) <= {nearest}, FALSE))"

    def of(self, mode: Mode) -> tuple[Tolerable, ...]:
        """The classes that a mode may differ by; none of the hourly run itself."""
        return getattr(self, mode, ())
