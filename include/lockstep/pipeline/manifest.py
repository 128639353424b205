"""A pipeline's pipeline.toml: what drives it, its key, its modes, what they may differ by.

Only what the file itself can have wrong is judged here. What it has wrong against its source's
catalog or the folder's other files is in cross_checks.py.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Self
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from lockstep.model.windows import Windows
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import meant, shown
from lockstep.pipeline.fields import Duration, Table, Text, Unrepeated, parse_duration, parse_table
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.tolerate import Tolerate
from lockstep.pipeline.toml_file import FormatVersion, Strict

_DAY = parse_duration("1d")
_MINUTE = parse_duration("1m")


class Semantics(StrEnum):
    """AS_OF_COMMIT: each fact joined with the rows valid at its own commit, never changed later.

    CURRENT: every version of the table is the query over some prefix of the history.
    """

    AS_OF_COMMIT = "as_of_commit"
    CURRENT = "current"


class Access(StrEnum):
    """What a role of Airflow may do with a pipeline's DAGs: look at them, or run them, too."""

    READ = "read"
    RUN = "run"


def _one_source(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) != 1:
        raise ValueError(f"names {len(names)} sources: this version reads exactly one, name one")
    return names


def _semantics(name: object) -> object:
    if name == Semantics.CURRENT:
        raise ValueError("current does not work in this version: write `as_of_commit`, which does")
    if name != Semantics.AS_OF_COMMIT:
        raise ValueError(f"{shown(name)} is not known: write `as_of_commit`")
    return name


def _key(columns: tuple[str, ...]) -> tuple[str, ...]:
    if not columns:
        raise ValueError("is empty: name the columns that identify a row of the result")
    return columns


def _stream_mode(name: object) -> object:
    if name == Mode.BATCH:
        raise ValueError("batch is always there: remove it")
    if name == Mode.MAINTAINED:
        raise ValueError("maintained is of the semantics current, which this version has not")
    if isinstance(name, str) and name not in STREAM_MODES:
        raise ValueError(f"{shown(name)} is not known: {meant(name, list(STREAM_MODES))}")
    return name


def _access(name: object) -> object:
    if name not in list(Access):
        raise ValueError(f"{shown(name)} is not known: {meant(name, list(Access))}")
    return name


def _every(duration: Any) -> Any:
    if duration < _MINUTE or _DAY % duration:
        raise ValueError("must divide a day without rest, and be a minute or more: such as 15m, 1h")
    return duration


@cache
def _zones() -> frozenset[str]:
    """Without the one that stands for the machine's own, which differs from place to place."""
    return frozenset(available_timezones() - {"localtime"})


def _zone(name: object) -> object:
    if not isinstance(name, str):
        raise ValueError('is no time zone: write "schema.table.column" = "Area/City", in quotes')
    if name not in _zones():
        alike = get_close_matches(name, sorted(_zones()))
        remedy = meant(name, alike) if alike else "write one such as Europe/Berlin or UTC"
        raise ValueError(f"{shown(name)} is no time zone: {remedy}")
    return name


Zone = Annotated[str, BeforeValidator(_zone)]


class Schedule(Strict):
    """When hourly runs are due."""

    every: Annotated[Duration, AfterValidator(_every)] = Field(
        parse_duration("1h"),
        description="the length of a window; windows begin at midnight, so a day has a whole "
        "number of them",
        json_schema_extra={"default": "1h"},
    )
    delay: Duration = Field(
        parse_duration("5m"),
        description="how long after its window's end a run is due, so that facts of just before "
        "the end are committed",
        json_schema_extra={"default": "5m"},
    )
    zone: Zone = Field(
        "UTC",
        description="the time zone at whose midnight days begin, with `every` 1d: a day may then "
        "have 23 or 25 hours",
        json_schema_extra={"default": "UTC"},
    )

    @model_validator(mode="after")
    def _zone_of_days(self) -> Self:
        if self.zone != "UTC" and self.every != _DAY:
            raise ValueError(
                f"`zone` is {self.zone}, and windows shorter than a day are of UTC: leave it out, "
                'or write every = "1d"'
            )
        return self


class PipelineManifest(Strict):
    """pipeline.toml: one result, made by the folder's query.sql."""

    format_version: FormatVersion = Field(description="the format of this file: 1")
    sources: Annotated[tuple[str, ...], AfterValidator(_one_source)] = Field(
        description="the sources that the query reads: folders of include/sources; one for now",
        json_schema_extra={"minItems": 1, "maxItems": 1},
    )
    semantics: Annotated[
        Semantics,
        BeforeValidator(_semantics),
        WithJsonSchema({"type": "string", "enum": [Semantics.AS_OF_COMMIT]}),
    ] = Field(
        description="as_of_commit: each fact is joined with the rows valid at its own commit, and "
        "is never changed by later ones"
    )
    fact: Table = Field(description="the table whose rows drive the pipeline")
    children: Annotated[tuple[Table, ...], Unrepeated] = Field(
        (),
        description="the tables that are part of the fact, which the query joins by what they have "
        "of its primary key: a change of their rows is one of the fact",
        json_schema_extra={"uniqueItems": True},
    )
    key: Annotated[tuple[Text, ...], AfterValidator(_key), Unrepeated] = Field(
        description="the columns that identify a row of the result",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    time: Text | None = Field(
        None,
        description="the column of the result that says which window a row is in, and never "
        "changes; without it the result is refreshed whole each time",
    )
    schedule: Schedule | None = Field(
        None,
        description="when hourly runs are due; by default each hour 5 minutes after its end, and "
        "without `time` only when a person asks for one",
    )
    view: Table | None = Field(
        None,
        description="the PostgreSQL view of the same rows as the query's: mode lookup and "
        "`--read view` read it, and the query is compared with it",
    )
    outbox: Table | None = Field(
        None, description="the table to which the application publishes rows, for mode outbox"
    )
    message_prefix: Text | None = Field(
        None,
        description="the prefix of the logical messages that the application publishes rows by, "
        "for mode message, where it is not to be the one that Lockstep gives",
    )
    modes: Annotated[
        tuple[
            Annotated[
                Mode,
                BeforeValidator(_stream_mode),
                WithJsonSchema({"type": "string", "enum": STREAM_MODES}),
            ],
            ...,
        ],
        Unrepeated,
    ] = Field(
        (),
        description="the streams of the pipeline; the hourly run is always there",
        json_schema_extra={"uniqueItems": True},
    )
    tolerate: Tolerate = Field(
        Tolerate(),
        description="the differences from the hourly run that do not fail a window, by mode",
        json_schema_extra={"default": {}},
    )
    access: Mapping[Text, Annotated[Access, BeforeValidator(_access)]] = Field(
        {},
        description="for roles of Airflow, what they may do with the pipeline's DAGs: `read`, or "
        "`run`, which is also to trigger, backfill, approve and pause. It counts where Airflow's "
        "auth manager has access control by DAG, as that of the FAB provider has",
    )
    time_zones: Mapping[str, Zone] = Field(
        {},
        description='for columns of type `timestamp`, as "schema.table.column", the time zone '
        'that their values are in, such as "Europe/Berlin"',
    )

    @model_validator(mode="before")
    @classmethod
    def _with_time_is_hourly(cls, content: dict[str, Any]) -> dict[str, Any]:
        return {"schedule": {}, **content} if "time" in content else content

    @property
    def windows(self) -> Windows:
        """The windows that the pipeline is run for: hours of UTC where it has no schedule."""
        return Windows() if self.schedule is None else Windows.of(self.schedule)


def column_of(text: str) -> tuple[TableName, str]:
    """Table and column of `schema.table.column`, or of `table.column` of public.

    Raises ValueError when it is neither.
    """
    table, dot, column = text.rpartition(".")
    if not dot or not column:
        raise ValueError("is no column: write `schema.table.column`, in quotes")
    return parse_table(table), column
