"""How a row changed is known from the transaction that wrote it, whatever its key and columns."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from lockstep.cdc.cuts import Cut
from lockstep.model.window import Window
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import RowKeys
from lockstep.pipeline.type_table import ValueType
from lockstep.repair.changed_rows import ChangedRow, How, counted, how_changed
from lockstep.repair.plan import hourly_query
from lockstep.repair.run import hourly_row, key_in_commit
from lockstep.sources.window_rows import DatabaseRow, MadeOf

VALUES = {
    "sent_at": datetime(2026, 5, 1, 12, tzinfo=UTC),
    "label": "Valve",
    "parts": [{"label": "Ring", "price": Decimal("9.50")}],
}
ROW = DatabaseRow(("a0", 7), VALUES, {"row_xid": 900})


def made_of(transactions: dict[tuple, int]) -> dict[tuple, MadeOf]:
    return {key: MadeOf(tx_id) for key, tx_id in transactions.items()}


def test_a_row_whose_children_are_others_differs_though_its_own_transaction_is_the_same() -> None:
    hourly = {(1,): MadeOf(2**32 + 900, "a"), (2,): MadeOf(900, "b")}
    database = {(1,): MadeOf(900, "a"), (2,): MadeOf(900, "c")}
    assert how_changed(hourly, database) == {(2,): How.UPDATED}


def test_rows_of_other_transactions_differ_and_those_of_the_same_do_not() -> None:
    hourly = {(1,): 2**32 + 900, (2,): 2**33 + 901, (3,): 902, (4,): 903}
    database = {(1,): 900, (2,): 902, (4,): 903, (5,): 904}
    assert how_changed(made_of(hourly), made_of(database)) == {
        (2,): How.UPDATED,
        (3,): How.CANCELLED,
        (5,): How.NEW,
    }
    assert how_changed({}, {}) == {}


def test_keys_of_two_columns_differ_by_both() -> None:
    hourly = {("a0", 7): 900, ("a0", 8): 901}
    database = {("a0", 7): 900, ("b0", 8): 901}
    assert list(how_changed(made_of(hourly), made_of(database)).items()) == [
        (("a0", 8), How.CANCELLED),
        (("b0", 8), How.NEW),
    ]


def test_a_digest_stands_for_the_values_of_both_sides() -> None:
    new = ChangedRow('["a0",7]', How.NEW, None, ROW)
    dearer = VALUES | {"parts": [{"label": "Ring", "price": Decimal("9.51")}]}
    others = [
        replace(new, after=replace(ROW, values=dearer)),
        replace(new, after=replace(ROW, values=VALUES | {"label": None})),
        replace(new, before={"label": "Valve"}),
        replace(new, key='["a0",8]'),
        replace(new, how=How.UPDATED),
    ]
    assert replace(new).digest == new.digest
    assert len({new.digest, *(one.digest for one in others)}) == 1 + len(others)


def test_changes_are_counted_by_kind() -> None:
    new = ChangedRow("[7]", How.NEW, None, ROW)
    assert counted([new, new, replace(new, how=How.CANCELLED)]) == "2 new, 1 cancelled"


def test_a_commit_has_integers_where_a_key_is_one_and_else_its_text() -> None:
    number = ValueType("bigint", "bigint", pa.int64(), int, key=str)
    text = ValueType("uuid", "string", pa.string(), str, key=str)
    assert key_in_commit("[17]", RowKeys(("id",), [number])) == 17
    assert key_in_commit('["a0"]', RowKeys(("id",), [text])) == '["a0"]'
    assert key_in_commit('["a0",7]', RowKeys(("id", "n"), [text, number])) == '["a0",7]'


@pytest.mark.parametrize("has_children", [False, True])
def test_the_tables_rows_are_asked_for_by_the_results_own_names(has_children: bool) -> None:
    columns = {"depot": "string", "sent at": "timestamp", 'the "label"': "string"}
    window = Window.parse("2026-05-01T12:00Z", "2026-05-01T13:00Z")
    result = Result(columns, ("depot",), "sent at")
    children = "origin['children']" if has_children else "CAST(NULL AS string)"
    assert hourly_query(result, window, has_children=has_children) == (
        'SELECT "depot", "sent at", "the ""label""", origin[\'tx_id\'] AS tx_id, '
        f"{children} AS origin FROM hourly "
        "WHERE window_date >= DATE '2026-05-01' AND window_date <= DATE '2026-05-01' "
        "AND \"sent at\" >= TIMESTAMP '2026-05-01T12:00:00+00:00' "
        "AND \"sent at\" < TIMESTAMP '2026-05-01T13:00:00+00:00'"
    )


def test_a_repaired_row_has_its_day_the_cut_and_its_origin() -> None:
    read = {"row_xid": 900, "row_committed_at": None}
    row = replace(ROW, origin=read)
    cut = Cut("a repair", f"{2**32 + 950}:{2**32 + 950}:", 17, VALUES["sent_at"])
    columns = {"depot": "string", "number": "bigint", "sent_at": "timestamp", "label": "string"}
    result = Result(columns, ("depot", "number"), "sent_at")
    of_days = replace(row, values=VALUES | {"sent_at": date(2026, 5, 1)})
    for one in (row, of_days):
        assert hourly_row(one, result, cut) == {
            "depot": "a0",
            "number": 7,
            **one.values,
            "window_date": date(2026, 5, 1),
            "run_id": "a repair",
            "cut_snapshot": cut.snapshot,
            "cut_lsn": 17,
            "origin": {"tx_id": 2**32 + 900, "committed_at": None},
        }
