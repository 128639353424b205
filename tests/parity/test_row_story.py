"""One row over time, as each table has it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.cli import app
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.parity.report import story
from lockstep.parity.row_story import story_of
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, change_log_table
from rich.console import Console
from typer.testing import CliRunner

from tests.parity.parcels import COLUMNS, parcels
from tests.pizzeria_tables import CHANGE_LOG_COLUMNS
from tests.project import PROJECT_DIR

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
PLAN = plan_named(PROJECT_DIR, MANIFEST)
LOG = arrow_schema(CHANGE_LOG_COLUMNS)


def change(lsn: int, op: str = "c", price: str = "9.50", **changed: object) -> dict:
    values = {
        "order_id": 7,
        "order_time": NOON,
        "client_name": "Ada",
        "table_name": "Table 3",
        "pizzas": [{"pizza": "Funghi", "price": Decimal(price)}],
        "op": op,
        "tx_id": 1000 + lsn,
        "commit_lsn": lsn,
        "is_raced": False,
        "committed_at": NOON + timedelta(seconds=lsn),
    }
    if op == "d":
        values |= dict.fromkeys(("order_time", "client_name", "table_name", "pizzas"))
    return values | changed


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Outbox and temporal agree; the look-up saw a price of later; then the order is cancelled."""
    settings = Settings(home=tmp_path)
    logs = {
        StreamMode.OUTBOX: [change(10), change(30, "d")],
        StreamMode.TEMPORAL: [change(10), change(30, "d"), change(10, order_id=8)],
        StreamMode.LOOKUP: [change(10, price="9.90", is_raced=True), change(30, "d")],
    }
    for mode, rows in logs.items():
        table = pa.Table.from_pylist(rows, LOG)
        write_deltalake(settings.table_uri(change_log_table(mode)), table)
    row = change(10, price="9.90") | {"cut_lsn": 20, "run_id": "r1"}
    names = [*LOG.names[:5], "cut_lsn", "run_id"]
    fields = [LOG.field(name) for name in names[:5]]
    schema = pa.schema([*fields, ("cut_lsn", pa.int64()), ("run_id", pa.string())])
    batch = pa.Table.from_pylist([{name: row[name] for name in names}], schema)
    write_deltalake(settings.table_uri(ORDERS_ENRICHED_BATCH), batch)
    return settings


def test_tables_that_agree_are_shown_together_in_the_order_of_the_history(
    settings: Settings,
) -> None:
    moments = story_of(settings, PLAN, (7,))
    assert [(moment.commit_lsn, moment.what) for moment in moments] == [
        (10, "transaction 1010"),
        (20, "cut of run r1"),
        (30, "transaction 1030"),
    ]
    said = [[(state.modes, state.op) for state in moment.states] for moment in moments]
    assert said == [
        [(("lookup*",), "c"), (("outbox", "temporal"), "c")],
        [(("batch",), "")],
        [(("lookup", "outbox", "temporal"), "d")],
    ]


def test_it_fits_a_terminal(settings: Settings) -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(story("7", story_of(settings, PLAN, (7,))))
    text = captured.get()
    assert max(map(len, text.splitlines())) <= 100
    for words in ("outbox, temporal", "lookup*", "[Funghi 9.90]", "gone", "cut of run r1"):
        assert words in text


def test_an_order_that_no_table_has_is_an_error(settings: Settings) -> None:
    with pytest.raises(LakehouseError, match=r"has the row \[99\]"):
        story_of(settings, PLAN, (99,))


def test_a_row_with_a_key_of_two_columns(tmp_path: Path) -> None:
    plan, settings = parcels(tmp_path / "project"), Settings(home=tmp_path)
    commit = {"op": "string", "tx_id": "bigint", "commit_lsn": "bigint", "is_raced": "boolean"}
    columns = COLUMNS | commit | {"committed_at": "timestamp"}
    row = {"group": "it's", "number": 7, "packed": NOON, "weight": Decimal("1.50")}
    row |= {"op": "c", "tx_id": 9, "commit_lsn": 10, "is_raced": False, "committed_at": NOON}
    rows = [row, row | {"number": 8}, row | {"group": "its"}]
    table = pa.Table.from_pylist(rows, arrow_schema(columns))
    write_deltalake(settings.table_uri(plan.change_log(StreamMode.TEMPORAL)), table)
    key = plan.row_keys.read('["it\'s",7]')
    (moment,) = story_of(settings, plan, key)
    (state,) = moment.states
    assert (moment.commit_lsn, state.modes) == (10, ("temporal",))
    assert state.values == {"packed": NOON, "weight": Decimal("1.50")}
    with pytest.raises(LakehouseError, match=r'has the row \["it\'s",9\]'):
        story_of(settings, plan, ("it's", 9))


def test_the_command_takes_a_plain_key_and_its_text(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_HOME", str(settings.home))
    for key in ("7", "[7]"):
        answer = CliRunner().invoke(app, ["parity", "diff", "--key", key])
        assert answer.exit_code == 0, answer.output
        assert "row 7" in answer.output
    answer = CliRunner().invoke(app, ["parity", "diff", "--key", "seven"])
    assert "seven is no key (order_id)" in str(answer.exception)
