"""The benchmarks' own PostgreSQL is filled once, and used again."""

from pathlib import Path

import pytest
from lockstep.devstack import postgres_files
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from lockstep_tools.bench import database
from lockstep_tools.bench.database import filled_database
from pizzeria.names import Login

pytestmark = pytest.mark.services

ORDERS = 24


def test_a_database_that_was_filled_before_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, filled = database.bulk.fill, []
    monkeypatch.setattr(
        database.bulk, "fill", lambda own, orders: (filled.append(own), fill(own, orders))
    )
    settings = Settings(home=tmp_path)
    try:
        for _ in range(2):
            with filled_database(settings, ORDERS) as own, connect(own, Login.OWNER) as connection:
                (count,) = connection.execute("SELECT count(*) FROM orders").fetchone()
                assert count == ORDERS
    finally:
        postgres_files.remove(own)
    assert len(filled) == 1
