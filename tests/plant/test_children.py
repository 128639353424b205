"""Tables that are part of the fact: which columns say whose they are, and what a change touches."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.parity.proof import Suspect, has_last_change
from lockstep.parity.versions import RowHistories, RowHistory, Version
from lockstep.pipeline.catalog import Column, Table, TableName
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.errors import ManifestError, PipelineError
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import HISTORY_COLUMNS, HISTORY_PARTITION
from lockstep.sinks.append_log import AppendLog
from lockstep.streams import needed_versions
from lockstep.streams.children import Children
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import Key, RowVersion, TableRow, text_of

from tests.plant.planned import NAMES, planned
from tests.plant.project import MANIFEST

AT = datetime(2024, 5, 1, tzinfo=UTC)
AT_US = round(AT.timestamp() * 1_000_000)
BILL = Table(
    TableName(NAMES.schema, NAMES.fact),
    (
        Column(NAMES.id, "integer", False),
        Column(NAMES.taken_at, "timestamp with time zone", False),
    ),
    (NAMES.id,),
)
ENTRY = Table(
    TableName("public", "entry"),
    (Column("no", "integer", False), Column("bill", "integer"), Column("amount", "integer")),
    ("no",),
)
QUERY = """SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, SUM(e.amount) AS total
FROM $schema.$fact AS r LEFT JOIN entry AS e ON e.bill = r.$id GROUP BY r.$id, r.$taken_at"""
BILLS, ENTRIES = text_of(BILL.name), text_of(ENTRY.name)


def manifest(children: str) -> str:
    key = 'key = ["$reading_id"]\n'
    return MANIFEST.template.replace(key, f"{key}children = {children}\n")


def plan(folder: Path, query: str = QUERY, children: str = '["entry"]') -> Plan:
    return planned(folder, BILL, ENTRY, query=query, manifest=manifest(children))


def test_a_child_belongs_to_the_row_whose_key_the_query_joins_it_by(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.children == {ENTRY.name: ("bill",)}
    assert found.version != replace(found, children={}).version


@pytest.mark.parametrize(
    ("query", "named"),
    [
        (QUERY.replace("e.bill = r.$id", "e.bill < r.$id AND e.no = r.$id"), ""),
        (
            QUERY.replace("LEFT JOIN entry AS e ON e.bill = r.$id ", "").replace("e.amount", "1"),
            "not by",
        ),
        (
            QUERY.replace("GROUP", "LEFT JOIN entry AS o ON o.no = r.$id GROUP"),
            "in more ways than one by",
        ),
    ],
    ids=["by one column", "not at all", "twice"],
)
def test_a_child_that_is_not_joined_by_the_facts_key_is_refused(
    tmp_path: Path, query: str, named: str
) -> None:
    if not named:
        assert plan(tmp_path, query).children == {ENTRY.name: ("no",)}
        return
    with pytest.raises(PipelineError, match=f"entry is among `children`, and .* it {named}"):
        plan(tmp_path, query)


@pytest.mark.parametrize(
    ("children", "modes", "named"),
    [
        ('["no_such"]', "temporal", "there is no table public.no_such|no_such"),
        (f'["{NAMES.schema}.{NAMES.fact}"]', "temporal", "is the fact itself"),
        ('["entry"]', "lookup", "lookup does not follow `children`"),
    ],
)
def test_what_a_manifest_has_wrong_of_children_is_named(
    tmp_path: Path, children: str, modes: str, named: str
) -> None:
    text = manifest(children).replace('"temporal", "transaction"', f'"{modes}"')
    text = text.split("[tolerate]")[0] + 'view = "public.v"\n'
    with pytest.raises(ManifestError, match=named):
        planned(tmp_path, BILL, ENTRY, query=QUERY, manifest=text)


@dataclass
class Needed:
    """What NeededVersions knows of rows before a commit."""

    rows: dict[str, dict[Key, tuple]]

    def values_before(self, table: str, keys: Any, commit_lsn: int) -> dict[Key, tuple]:
        known = self.rows.get(table, {})
        return {key: known[key] for key in keys if key in known}


def version(table: str, op: str, key: int, values: tuple | None) -> RowVersion:
    return RowVersion(table, op, TableRow((key,), values), 9, 90, AT_US, AT_US)


def touched(plan: Plan, known: dict[str, dict[Key, tuple]], *versions: RowVersion) -> list:
    """Key and values of each row of the fact that these versions touch."""
    children = Children(plan, Needed(known))
    owners = children.owners(versions, 90)
    own = {one.row.key for one in versions if one.table == BILLS}
    found = list(children.touched(owners, own, 90))
    assert {(one.table, one.op, one.tx_id, one.commit_lsn) for one in found} <= {
        (BILLS, "u", 9, 90)
    }
    return sorted((one.row.key, one.row.values) for one in found)


def test_a_change_of_a_child_touches_its_owner_of_before_and_of_now(tmp_path: Path) -> None:
    bills = {(n,): (n, AT) for n in (1, 2)}
    entries = {(7,): (7, 1, 5)}
    known = {BILLS: bills, ENTRIES: entries}
    one, two = ((1,), (1, AT)), ((2,), (2, AT))
    found = plan(tmp_path)
    assert touched(found, known, version(ENTRIES, "c", 8, (8, 2, 5))) == [two]
    assert touched(found, known, version(ENTRIES, "u", 7, (7, 1, 6))) == [one]
    assert touched(found, known, version(ENTRIES, "u", 7, (7, 2, 5))) == [one, two]
    assert touched(found, known, version(ENTRIES, "d", 7, None)) == [one]


def test_no_row_is_touched_that_is_not_there_or_has_a_change_of_its_own(tmp_path: Path) -> None:
    bills = {(1,): (1, AT)}
    known = {BILLS: bills, ENTRIES: {(7,): (7, 1, 5)}}
    found = plan(tmp_path)
    assert touched(found, known, version(ENTRIES, "c", 8, (8, None, 5))) == []
    assert touched(found, known, version(ENTRIES, "c", 8, (8, 3, 5))) == []
    gone = version(BILLS, "d", 1, None)
    assert touched(found, known, gone, version(ENTRIES, "d", 7, None)) == []


def entry(key: int, *versions: tuple[int, int | None]) -> RowHistory:
    """Commit and owner of each version; None: deleted. Transactions have their commit's number."""
    made = (
        Version(None if bill is None else (key, bill, 5), commit, commit, AT_US)
        for commit, bill in versions
    )
    return RowHistory(ENTRY.name, f"[{key}]", tuple(made))


@pytest.mark.parametrize(
    ("entries", "unseen", "is_last"),
    [
        ([entry(7, (2, 1)), entry(8, (3, 1))], frozenset(), True),
        ([entry(7, (2, 1)), entry(8, (3, 1))], frozenset({2}), True),
        ([entry(7, (2, 1)), entry(8, (4, 1))], frozenset(), False),
        ([entry(7, (2, 1)), entry(8, (4, 1))], frozenset({4}), True),
        ([entry(7, (2, 1), (5, None))], frozenset(), False),
        ([entry(7, (2, 1), (5, 9))], frozenset(), False),
        ([entry(7, (2, 1), (3, 9), (5, 8))], frozenset(), True),
        ([entry(7, (2, 9), (5, 9))], frozenset(), True),
    ],
    ids=[
        "all before",
        "an earlier one is not seen",
        "a later one",
        "a later one that is not seen",
        "deleted later",
        "moved away later",
        "changed later, when it had moved away",
        "of another row",
    ],
)
def test_a_stream_that_lacks_a_change_which_the_cut_sees_is_not_excused(
    tmp_path: Path, entries: list[RowHistory], unseen: frozenset[int], is_last: bool
) -> None:
    """The stream's row is of commit 3."""
    found = plan(tmp_path)
    rows = RowHistories(found.tables)
    bill = RowHistory(BILL.name, "[1]", (Version((1, AT), 1, 1, AT_US),))
    rows.add([bill, *entries])
    cut = DatabaseSnapshot(min(unseen, default=10), 10, unseen)
    text = f"{cut.xmin}:{cut.xmax}:{','.join(map(str, sorted(unseen)))}"
    suspect = Suspect((1,), "[1]", 3, False, None, text)
    assert has_last_change(found, rows, suspect) is is_last


def test_a_fact_with_too_many_versions_is_read_from_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan(tmp_path / "project")
    schema = arrow_schema(HISTORY_COLUMNS)
    rows = [
        {
            "table": str(BILL.name),
            "row_key": "[1]",
            "op": "u",
            "row": f'{{"{NAMES.id}": 1, "{NAMES.taken_at}": "2024-05-01T00:00:0{commit}Z"}}',
            "tx_id": commit,
            "commit_lsn": commit,
            "committed_at": AT,
        }
        for commit in (1, 2, 3)
    ]
    history = StoredHistory(str(tmp_path / "history"))
    assert history.count(found.fact) == 0
    log = AppendLog(history.uri, schema, HISTORY_PARTITION, 1)
    log.append(pa.Table.from_pylist(rows, schema), 3, 0)
    assert (history.count(found.fact), history.count(found.tables[ENTRY.name])) == (3, 0)
    for most, versions in ((3, 1), (2, 0)):
        monkeypatch.setattr(needed_versions, "FACT_VERSIONS_MAX", most)
        needed = NeededVersions(found, history, 3)
        assert needed.count == versions
        before = needed.values_before(BILLS, [(1,), (2,)], 3)
        assert before == ({(1,): (1, AT + timedelta(seconds=2))} if not versions else {})
        assert needed.values_before(BILLS, [(1,)], 4) == {(1,): (1, AT + timedelta(seconds=3))}
