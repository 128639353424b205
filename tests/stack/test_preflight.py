"""Each thing that is in the way of change data capture is named with what to do."""

import pytest
from lockstep.capture.connectors import connector_of
from lockstep.capture.preflight import DatabaseFacts, problems
from lockstep.settings import Settings
from pizzeria.names import CAPTURED_TABLES
from pydantic import SecretStr

CONNECTOR = connector_of(Settings(cdc_password=SecretStr("of the connector's role")))
TABLES = [["public", table] for table in CAPTURED_TABLES]
READY = DatabaseFacts(
    wal_level="logical",
    slots_max=10,
    slots_used=0,
    can_replicate=True,
    has_publication=True,
    is_partial=False,
    published=TABLES,
    unreadable=[],
    with_full_identity=TABLES,
    slot_plugin=None,
    slot_wal_status=None,
    slot_active=False,
)
WITH_SLOT = READY._replace(slot_plugin="pgoutput", slot_wal_status="reserved", slots_used=1)


@pytest.mark.parametrize("facts", [READY, WITH_SLOT, WITH_SLOT._replace(slots_used=10)])
def test_a_ready_database_has_no_problem(facts: DatabaseFacts) -> None:
    assert list(problems(CONNECTOR, facts, first=True)) == []


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (READY._replace(wal_level="replica"), "wal_level is replica: set it to logical"),
        (READY._replace(can_replicate=False), 'ALTER ROLE "cdc" REPLICATION'),
        (READY._replace(has_publication=False, published=[]), "publication.sql"),
        (READY._replace(published=TABLES[1:]), "lacks public.orders: ALTER PUBLICATION"),
        (READY._replace(is_partial=True), "leaves out changes: ALTER PUBLICATION"),
        (READY._replace(unreadable=TABLES[:1]), 'GRANT SELECT ON "public"."orders" TO "cdc"'),
        (READY._replace(with_full_identity=[]), "REPLICA IDENTITY FULL"),
        (READY._replace(slots_used=10), "all 10 replication slots are in use"),
        (WITH_SLOT._replace(slot_plugin="test_decoding"), "decodes with test_decoding"),
        (WITH_SLOT._replace(slot_wal_status="lost"), "changes are missing for good"),
        (WITH_SLOT._replace(slot_active=True), "another process is reading the slot"),
    ],
)
def test_what_is_in_the_way_is_named_with_its_remedy(facts: DatabaseFacts, problem: str) -> None:
    found = list(problems(CONNECTOR, facts, first=True))
    assert len(found) == 1
    assert problem in found[0]


def test_our_own_reader_of_the_slot_is_no_problem() -> None:
    assert list(problems(CONNECTOR, WITH_SLOT._replace(slot_active=True), first=False)) == []


def test_all_problems_are_reported_at_once() -> None:
    facts = READY._replace(wal_level="minimal", can_replicate=False, slots_used=10)
    assert len(list(problems(CONNECTOR, facts, first=True))) == 3
