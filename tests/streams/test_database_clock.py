"""How far database and topic are, asked every second over connections that stay."""

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.settings import Settings
from lockstep.sources import kept_connection
from lockstep.streams.heartbeats import DatabaseClock

pytestmark = pytest.mark.services

CONNECTIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid"
END = "SELECT pg_terminate_backend(%s)"


@pytest.fixture
def asked_by(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the clock's connection alone: others of this process are look-ups."""
    parameters = {**kept_connection._PARAMETERS, "application_name": "the clock"}
    monkeypatch.setattr(kept_connection, "_PARAMETERS", parameters)
    monkeypatch.setattr(kept_connection, "_kept", type("Kept", (), {})())
    return "the clock"


def test_the_clock_keeps_its_connection_and_opens_a_lost_one_the_next_time(
    change_capture: Settings, asked_by: str
) -> None:
    clock = DatabaseClock(change_capture)
    clock.read()
    first_lsn = clock.lsn
    assert clock.end_offset is not None
    with psycopg.connect(**change_capture.connection(Role.ADMIN), autocommit=True) as admin:
        ((pid,),) = admin.execute(CONNECTIONS, [asked_by]).fetchall()
        clock.read()
        assert admin.execute(CONNECTIONS, [asked_by]).fetchall() == [(pid,)]
        admin.execute(END, [pid])
        clock.read()
        assert clock.lsn is None
        clock.read()
        assert clock.lsn >= first_lsn
        ((new,),) = admin.execute(CONNECTIONS, [asked_by]).fetchall()
        assert new != pid
