"""The question that gives a row of scalars for each row of a window, as SQL of DataFusion. Pure.

It is made of the result's columns and the author's checks: `hourly` is the hourly table. Nested
columns are read where a derived scalar is made of them, and never leave the engine.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from lockstep.model.window import Window
from lockstep.pipeline.checks import ChecksManifest, Derived
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.pipeline.row_keys import literal, quoted
from lockstep.sinks.window_conditions import of_time

RUN = "run_id"
IS_IN_ITS_PARTITION = "is_in_its_partition"
_STRAY_DAYS = timedelta(days=1)
"""Rows written outside their window are looked for a day around it: time zone slips end there,
and a whole year of partitions need not be opened for each hour."""


def rows_sql(result: Result, checks: ChecksManifest, window: Window, run_ids: Sequence[str]) -> str:
    """A row for each row of the window, and for each that these runs wrote within a day around it.

    Without a time: for each row of the table. Columns: the key, the time, what the checks are
    about, IS_IN_ITS_PARTITION (with a time) and RUN.
    """
    arrays = list(dict.fromkeys(one.each for one in checks.derived if one.each is not None))
    of_arrays = [[one for one in checks.derived if one.each == array] for array in arrays]
    relations = [
        f"candidates AS ({_candidates(result, checks, window, run_ids)})",
        *(
            relation
            for place, derived in enumerate(of_arrays)
            for relation in _of_elements(result, place, derived)
        ),
    ]
    columns = [
        *_own_columns(result, checks),
        *(one for place, derived in enumerate(of_arrays) for one in _joined(place, derived)),
    ]
    joins = " ".join(_join(result, place) for place in range(len(arrays)))
    return f"WITH {', '.join(relations)} SELECT {', '.join(columns)} FROM candidates {joins}"  # noqa: S608


def in_window(result: Result, window: Window, table: str = "") -> str:
    """The condition that a row's time is in the window; true of all without a time."""
    if result.time is None:
        return "TRUE"
    return f"({of_time(window, f'{table}{quoted(result.time)}')})"


def _candidates(
    result: Result, checks: ChecksManifest, window: Window, run_ids: Sequence[str]
) -> str:
    """The rows, with the scalars that are made of a row as it is."""
    derived = (_named(one) for one in checks.derived if one.each is None)
    columns = ", ".join(["*", *derived])
    return f"SELECT {columns} FROM hourly WHERE {_selected(result, window, run_ids)}"  # noqa: S608


def _named(derived: Derived) -> str:
    # The line break ends a comment of the author's.
    return f"({derived.sql}\n) AS {quoted(derived.name)}"


def _selected(result: Result, window: Window, run_ids: Iterable[str]) -> str:
    if result.time is None:
        return "TRUE"
    first, last = (
        f"DATE '{day.date()}'" for day in (window.start - _STRAY_DAYS, window.end + _STRAY_DAYS)
    )
    runs = ", ".join(map(literal, run_ids))
    return (
        f"{HOURLY_PARTITION} BETWEEN {first} AND {last} "
        f"AND ({in_window(result, window)} OR {RUN} IN ({runs}))"
    )


def _of_elements(result: Result, place: int, derived: Sequence[Derived]) -> Iterable[str]:
    """The array's elements, and the scalars of each key that has any."""
    array = quoted(derived[0].each or "")
    keys = [f"key_{at}" for at in range(len(result.key))]
    named = (f"{quoted(name)} AS {key}" for name, key in zip(result.key, keys, strict=True))
    yield (
        f"elements_{place} AS (SELECT {', '.join(named)}, unnest({array}) AS item FROM candidates)"  # noqa: S608
    )
    values = (f"({one.sql}\n) AS value_{at}" for at, one in enumerate(derived))
    columns = ", ".join([*keys, "TRUE AS has_elements", *values])
    group = f"FROM elements_{place} GROUP BY {', '.join(keys)}"
    yield f"scalars_{place} AS (SELECT {columns} {group})"


def _own_columns(result: Result, checks: ChecksManifest) -> Iterable[str]:
    of_rows = [one.name for one in checks.derived if one.each is None]
    checked = [one.column for one in checks.check if one.column in result.columns]
    names = dict.fromkeys([*result.key, *checked, *of_rows])
    if result.time is not None:
        names.pop(result.time, None)
        yield from _of_time(result.time, result.columns[result.time])
    yield from (f"candidates.{quoted(name)}" for name in names)
    yield f"coalesce(candidates.{RUN}, 'none') AS {RUN}"


def _of_time(time: str, type_: str) -> Iterable[str]:
    """A date as its first instant, so that it is compared with the window as the run does."""
    column = f"candidates.{quoted(time)}"
    moment = column if type_ == "timestamp" else _instant(column)
    yield f"{moment} AS {quoted(time)}"
    yield f"candidates.{HOURLY_PARTITION} = CAST({column} AS DATE) AS {IS_IN_ITS_PARTITION}"


def _instant(column: str) -> str:
    return f"arrow_cast({column}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _joined(place: int, derived: Sequence[Derived]) -> Iterable[str]:
    """The scalars of an array's elements: of none, the aggregate over no rows."""
    for at, one in enumerate(derived):
        of_none = f"(SELECT ({one.sql}\n) FROM elements_{place} WHERE FALSE)"  # noqa: S608
        value = f"scalars_{place}.value_{at}"
        case = f"CASE WHEN scalars_{place}.has_elements THEN {value} ELSE {of_none} END"
        yield f"{case} AS {quoted(one.name)}"


def _join(result: Result, place: int) -> str:
    """A null of a key is like any other value here: such a row is to be found, too."""
    same = " AND ".join(
        f"(candidates.{quoted(name)} IS NOT DISTINCT FROM scalars_{place}.key_{at})"
        for at, name in enumerate(result.key)
    )
    return f"LEFT JOIN scalars_{place} ON {same}"
