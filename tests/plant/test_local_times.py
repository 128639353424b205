"""PostgreSQL's instants of local times are those of the stream's decoder, in any time zone."""

from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo, available_timezones

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.pipeline.catalog import Column
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.types import value_type
from lockstep.settings import Settings
from lockstep.sources.column_reads import ColumnRead
from lockstep.sources.zone_clock import ZoneClock
from psycopg import sql

from tests.pipeline.type_samples import TABLE, catalog_of

pytestmark = pytest.mark.services

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
ODD_ZONES = ("Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein", "America/Juneau", "UTC")
"""Clocks put back by half an hour, and days left out or had twice."""


def of_zone(zone: str) -> ValueType:
    column = Column("at", "timestamp without time zone")
    return value_type(column, TABLE, catalog_of(column)[0], zone)


def around_changes(zone: str, rng: Random) -> list[datetime]:
    """Local times next to changes of the offset, and any."""
    times = [datetime(1800, 1, 1) + timedelta(days=rng.uniform(0, 90_000)) for _ in range(20)]
    info = ZoneInfo(zone)
    day = datetime(1840, 1, 1)
    days = [day + timedelta(days=number) for number in range(72_000)]
    offsets = [one.replace(tzinfo=info).utcoffset() for one in days]
    changes = [
        at for at, (one, other) in zip(days[1:], pairwise(offsets), strict=True) if one != other
    ]
    for change in rng.sample(changes, min(len(changes), 20)):
        times += [change + timedelta(minutes=rng.randrange(-60, 60 * 25)) for _ in range(20)]
    return times


@pytest.mark.parametrize("seed", range(3))
def test_each_local_time_has_the_streams_instant_or_none(postgres: Settings, seed: int) -> None:
    rng = Random(seed)
    zones = [*ODD_ZONES, *rng.sample(sorted(available_timezones() - {"localtime"}), 10)]
    wrong = []
    with psycopg.connect(**postgres.connection(Role.ADMIN)) as connection:
        for zone in zones:
            times = around_changes(zone, rng)
            column = ColumnRead("at", of_zone(zone), ZoneClock.of(zone, min(times), max(times)))
            query = sql.SQL(
                "SELECT at, CASE WHEN NOT {refused} THEN {sent} END "
                "FROM unnest(%s::timestamp[]) AS of (at)"
            ).format(refused=column.refused, sent=column.sent)
            for local, found in connection.execute(query, [times]):
                try:
                    instant = column.type.value((local - EPOCH) // MICROSECOND)
                    wanted = (instant.replace(tzinfo=None) - EPOCH) // MICROSECOND
                except ValueError:
                    wanted = None
                if wanted != found:
                    wrong.append((zone, str(local), wanted, found))
    assert not wrong, (seed, len(wrong), wrong[:10])
