"""A PostgreSQL of the benchmarks' own, so that the user's data and stack are left alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.devstack import control
from lockstep.host.ports import free_ports
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.names import ORDERS, Login
from pizzeria.shop import bulk
from psycopg import sql

POSTGRES = "postgres"


@contextmanager
def filled_database(settings: Settings, orders: int) -> Iterator[Settings]:
    """Settings of a running PostgreSQL below HOME/bench-ORDERS with that many orders in one day.

    The first time fills it (about half a minute for a million); it is kept for the next time, and
    stopped at the end of the block.
    """
    own = settings.model_copy(
        update={
            "home": settings.home / f"bench-{orders}",
            "lakehouse": "",
            "postgres_host": "127.0.0.1",
            "spark_master": "local[2]",
            "postgres_port": free_ports(1)[0],
        }
    )
    own = control.up(_with_its_passwords(own), [POSTGRES])
    try:
        if _count(own) != orders:
            bulk.fill(own, orders)
        yield own
    finally:
        control.down(own)


def _with_its_passwords(own: Settings) -> Settings:
    """Those that an earlier run made; the ones of `own` are of another home."""
    made = Settings(_env_file=own.secrets_path)
    names = [name for name in Settings.model_fields if name.endswith("_password")]
    return own.model_copy(update={name: getattr(made, name) for name in names})


def _count(settings: Settings) -> int:
    with connect(settings, Login.OWNER) as connection:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(ORDERS))
        return connection.execute(query).fetchone()[0]
