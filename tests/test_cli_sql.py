"""`lockstep sql`: answers in three formats, clear errors, and nothing but reading."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.cli import app
from lockstep.cli.sql_names import with_full_names
from lockstep.errors import LakehouseError
from lockstep.sources.errors import QueryError
from pizzeria import names as pizzeria
from typer.testing import CliRunner

ORDERS = "orders_enriched__batch"
ROWS = pa.table(
    {
        "order_id": pa.array([1, 2, 3], pa.int64()),
        "order_time": pa.array(
            [datetime(2015, 1, 1, 11, 38, 36, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")
        ),
        "client_name": pa.array(['Ada, the "first"', None, "Zoë"]),
        "pizzas": pa.array(
            [
                [
                    {"pizza": "Hawaiian (M)", "price": Decimal("13.25")},
                    {"pizza": "Hawaiian (M)", "price": Decimal("13.25")},
                ],
                [{"pizza": None, "price": None}],
                [],
            ],
            pa.list_(pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))])),
        ),
        "order_date": pa.array([date(2015, 1, 1)] * 3),
    }
)


@pytest.fixture
def lakehouse(tmp_path, monkeypatch) -> Path:
    """A lakehouse with the hourly table in it."""
    for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    write_deltalake(
        tmp_path / "lakehouse" / pizzeria.ORDERS_ENRICHED_BATCH, ROWS, partition_by=["order_date"]
    )
    return tmp_path / "lakehouse"


def answer(*arguments: str) -> str:
    """What the command writes; its error is raised here."""
    return CliRunner().invoke(app, ["sql", *arguments], catch_exceptions=False).output


def test_table_shows_nulls_pizzas_and_utc_seconds(lakehouse):
    shown = answer(f"SELECT * EXCEPT (order_date) FROM {ORDERS} ORDER BY order_id")
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[0].split() == ["order_id", "order_time", "client_name", "pizzas"]
    assert "2015-01-01 11:38:36Z" in lines[2]
    assert all(line.endswith(" Hawaiian (M)  13.25") for line in lines[2:4])
    assert lines[4].split()[-3:] == ["null", "null", "null"]
    assert lines[5].endswith("[]")
    assert lines[6].startswith("3 rows (")


def test_rows_too_wide_for_the_width_are_stacked(lakehouse):
    wide = ", ".join(f"'{'x' * 30}' AS column_{number}" for number in range(6))
    shown = answer(f"SELECT order_id, {wide} FROM {ORDERS} ORDER BY order_id LIMIT 1")
    assert shown.startswith("row 1 ──")
    assert max(map(len, shown.splitlines())) <= 100
    assert "column_5  xxxx" in shown.replace("   ", "  ")


def test_table_stops_at_its_limit_and_says_so(lakehouse):
    many = f"SELECT a.order_id FROM {ORDERS} a, {ORDERS} b, {ORDERS} c, {ORDERS} d, {ORDERS} e"
    assert "first 100 rows, there are more: --limit N" in answer(many)
    assert "first 2 rows, there are more" in answer(many, "--limit", "2")
    assert "243 rows" in answer(many, "--limit", "243")


def test_csv_is_only_the_rows(lakehouse):
    written = answer(f"SELECT * FROM {ORDERS} ORDER BY order_id", "--format", "csv")
    header, first, second, _ = csv.reader(io.StringIO(written))
    assert header == ROWS.column_names
    assert first[:3] == ["1", "2015-01-01 11:38:36Z", 'Ada, the "first"']
    assert json.loads(first[3])[0] == {"pizza": "Hawaiian (M)", "price": 13.25}
    assert second[2] == ""


def test_csv_and_json_write_every_row(lakehouse):
    many = f"SELECT a.order_id FROM {ORDERS} a, {ORDERS} b, {ORDERS} c, {ORDERS} d, {ORDERS} e"
    assert len(answer(many, "--format", "csv").splitlines()) == 1 + 243
    assert len(json.loads(answer(many, "--format", "json"))) == 243
    assert len(json.loads(answer(many, "--format", "json", "--limit", "5"))) == 5


def test_json_keeps_nesting_and_nulls(lakehouse):
    query = f"SELECT *, cast('NaN' AS DOUBLE) AS nan FROM {ORDERS} ORDER BY order_id"
    first, second, third = json.loads(answer(query, "--format", "json"))
    assert first["order_time"] == "2015-01-01T11:38:36Z"
    assert first["pizzas"] == [{"pizza": "Hawaiian (M)", "price": 13.25}] * 2
    assert (second["client_name"], second["pizzas"]) == (None, [{"pizza": None, "price": None}])
    assert (third["client_name"], third["pizzas"], third["nan"]) == ("Zoë", [], None)
    assert json.loads(answer(f"SELECT 1 AS one FROM {ORDERS} LIMIT 0", "--format", "json")) == []


def test_every_table_has_a_short_name_and_a_clash_the_long_one(lakehouse):
    for path in ("pizzeria/orders_lookup", "bakery/orders_lookup", "a/b/c/deep"):
        write_deltalake(lakehouse / path, pa.table({"path": [path]}))
    assert "a/b/c/deep" in answer("SELECT * FROM deep")
    assert "bakery/orders_lookup" in answer("SELECT * FROM bakery_orders_lookup")
    assert "pizzeria/orders_lookup" in answer("SELECT * FROM pizzeria_orders_lookup")
    with pytest.raises(QueryError, match=r"no table orders_lookup in .*; there is: bakery_orders"):
        answer("SELECT * FROM orders_lookup")


def test_tables_the_query_does_not_name_are_not_opened(lakehouse):
    (lakehouse / "broken" / "_delta_log").mkdir(parents=True)
    assert "3 rows" in answer(f"SELECT order_id FROM {ORDERS}")
    with pytest.raises(LakehouseError, match="broken"):
        answer("SELECT * FROM broken")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "only SELECT is answered, and the query begins with SELEC"),
        ("", "begins with nothing"),
        (f"SELECT nocol FROM {ORDERS}", "No field named nocol. Valid fields are .*order_time"),
        (f"SELECT order_id FROM {ORDERS} WHERE", "SQL error: ParserError"),
        (f"SELECT 1; DROP TABLE {ORDERS}", "only supports a single SQL statement"),
        ("SELECT * FROM nope", "no table nope in .*; there is: orders_enriched__batch"),
        (f"SELECT 1 / (order_id - 1) FROM {ORDERS}", "Divide by zero"),
    ],
)
def test_bad_query_is_answered_with_what_is_wrong(lakehouse, query, message):
    with pytest.raises(QueryError, match=message):
        answer(query)


@pytest.mark.parametrize(
    "query",
    [
        "COPY {table} TO '{file}'",
        "/* only reading */ -- truly\n COPY {table} TO '{file}'",
        "CREATE EXTERNAL TABLE secrets STORED AS CSV LOCATION '/etc/passwd'",
        "INSERT INTO {table} SELECT * FROM {table}",
        "WITH a AS (SELECT 1) INSERT INTO {table} SELECT * FROM {table}",
        "DELETE FROM {table}",
        "EXPLAIN ANALYZE INSERT INTO {table} SELECT * FROM {table}",
    ],
)
def test_nothing_but_reading(lakehouse, tmp_path, query):
    file = tmp_path / "copied.csv"
    with pytest.raises(QueryError):
        answer("--", query.format(table=ORDERS, file=file))
    assert not file.exists()
    assert DeltaTable(lakehouse / pizzeria.ORDERS_ENRICHED_BATCH).version() == 0


def test_leading_comments_and_brackets_are_no_obstacle(lakehouse):
    assert "2 rows" in answer("--", "-- why\n/* so */ (SELECT 1) UNION ALL (SELECT 2)")


def test_empty_lakehouse_says_what_to_do(lakehouse, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKSTEP_LAKEHOUSE", str(tmp_path / "nowhere"))
    with pytest.raises(LakehouseError, match=r"holds no Delta table yet: `lockstep batch run`"):
        answer("SELECT 1")


def test_object_store_that_does_not_answer_is_said(lakehouse, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_LAKEHOUSE", "s3a://bucket/lake")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, "true")
    with pytest.raises(LakehouseError, match="Connection refused"):
        answer(f"SELECT * FROM {ORDERS}")


def test_control_characters_in_data_do_not_reach_the_terminal(lakehouse):
    shown = answer("SELECT chr(27) || '[31mred' AS text, '[bold]x[/bold]' AS markup")
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown


def test_command_ends_quietly_when_its_reader_does(lakehouse):
    """Many rows into `head`: no traceback, and no waiting for rows that are not read."""
    many = ", ".join(f"{ORDERS} t{number}" for number in range(12))  # 531,441 rows
    command = [sys.executable, "-c", "from lockstep.cli import main; main()"]
    with subprocess.Popen(
        [*command, "sql", "--format", "csv", f"SELECT t0.order_id FROM {many}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout.readline() == "order_id\n"
        running.stdout.close()
        assert running.stderr.read() == ""


def test_looking_imports_nothing_heavy():
    """An answer within a second leaves no room for Spark, pandas or Airflow."""
    script = (
        "import sys; from lockstep.cli import app, sql_answer; "
        "print([m for m in ('pyspark', 'pandas', 'airflow', 'great_expectations', 'httpx') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("query", "full"),
    [
        ("SELECT * FROM a.batch", "SELECT * FROM a__batch"),
        ("SELECT a.batch FROM A.Batch AS a", "SELECT a.batch FROM a__batch AS a"),
        ("SELECT 1 FROM sole WHERE x = 'a.batch'", "SELECT 1 FROM b__sole WHERE x = 'a.batch'"),
        (
            "WITH sole AS (SELECT 1 FROM b.sole) SELECT * FROM sole JOIN a__batch USING (x)",
            "WITH sole AS (SELECT 1 FROM b__sole) SELECT * FROM sole JOIN a__batch USING (x)",
        ),
        ("SELECT * FROM no.such, nothing", "SELECT * FROM no.such, nothing"),
        ("SELECT FROM FROM a.batch (", "SELECT FROM FROM a.batch ("),
    ],
)
def test_a_short_name_stands_for_the_tables_own(query: str, full: str) -> None:
    assert with_full_names(query, ["a__batch", "b__batch", "b__sole", "a"]) == full


def test_a_short_name_of_several_tables_is_refused_with_all_of_them() -> None:
    with pytest.raises(QueryError, match=r"several tables: write one of a\.batch, b\.batch"):
        with_full_names("SELECT * FROM batch", ["a__batch", "b__batch"])


def test_a_table_is_read_by_its_short_name(lakehouse):
    assert "3 rows" in answer("SELECT order_id FROM orders_enriched.batch")
    assert "3 rows" in answer("SELECT order_id FROM batch")
