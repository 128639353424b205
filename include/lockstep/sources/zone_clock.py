"""Instants of local times by the time zones that the stream's decoder uses, for PostgreSQL.

A database server has time zones of its own, which differ from Python's in many places before 1970,
and in some after it. So what a zone's clocks showed is asked of Python, once for a
range of times, and PostgreSQL gets it as two arrays. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from psycopg import sql

_STEP = timedelta(days=1)
_RULES_FROM_YEAR = 2100
_STEP_OF_RULES = timedelta(days=14)
"""From then on zones follow a rule for each year, with months between two changes."""
_SECOND = timedelta(seconds=1)
_At = tuple[datetime, timedelta | None]
"""A local time and the offset then."""


@dataclass(frozen=True)
class ZoneClock:
    """The offsets of a zone's local times in a range.

    bounds: the local times at which the offset becomes another one. offsets: local time less UTC
    before the first bound, and from each bound on; None where clocks skip these local times, or
    show them twice.
    """

    bounds: tuple[datetime, ...]
    offsets: tuple[timedelta | None, ...]

    @classmethod
    def of(cls, zone: str, first: datetime, last: datetime) -> "ZoneClock":
        """Of the local times in [first, last], all of the years 1 to 9999."""
        info = ZoneInfo(zone)
        at, last = first.replace(microsecond=0), last.replace(microsecond=0)
        offset = _offset(info, at)
        bounds, offsets = [], [offset]
        while at < last:
            until = at + min(_step(at), last - at)
            for bound, then in _changes(info, (at, offset), (until, _offset(info, until))):
                bounds.append(bound)
                offsets.append(then)
            at, offset = until, offsets[-1]
        return cls(tuple(bounds), tuple(offsets))

    def offset(self, local: sql.Composable) -> sql.Composable:
        """The offset of a local time of the range as an interval; null where it has no instant."""
        if not self.bounds:
            return _interval(self.offsets[0])
        return sql.SQL("(ARRAY[{offsets}])[1 + width_bucket({local}, {bounds})]").format(
            offsets=sql.SQL(", ").join(map(_interval, self.offsets)),
            local=local,
            bounds=sql.Literal(list(self.bounds)),
        )


def _interval(offset: timedelta | None) -> sql.Composable:
    return sql.SQL("{}::interval").format(sql.Literal(offset))


def _offset(zone: ZoneInfo, local: datetime) -> timedelta | None:
    early = zone.utcoffset(local)
    return early if early == zone.utcoffset(local.replace(fold=1)) else None


def _step(at: datetime) -> timedelta:
    """Within it the offset changes once at the most."""
    return _STEP if at.year < _RULES_FROM_YEAR else _STEP_OF_RULES


def _changes(zone: ZoneInfo, first: _At, last: _At) -> Iterator[_At]:
    """The local times from which another offset holds, with it; all are whole seconds."""
    if first[1] == last[1]:
        return
    if last[0] - first[0] == _SECOND:
        yield last
        return
    middle = first[0] + (last[0] - first[0]) // _SECOND // 2 * _SECOND
    there = middle, _offset(zone, middle)
    yield from _changes(zone, first, there)
    yield from _changes(zone, there, last)
