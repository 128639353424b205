"""A scheduled window that is late is reported by name; a backfilled one is never late."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.module_loading import import_string
from airflow.serialization.encoders import encode_deadline_alert
from lockstep.airflow_ops import deadlines
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

DUE = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
CONTEXT = {
    "dag_run": {
        "dag_id": "orders_enriched_hourly",
        "dag_run_id": "scheduled__2026-11-21T10:05:00+00:00",
        "state": "running",
        "data_interval_start": "2026-11-21T09:00:00Z",
        "data_interval_end": "2026-11-21T10:00:00Z",
    },
    "deadline": {"id": "1", "deadline_time": DUE + timedelta(minutes=30)},
}


def test_the_callback_is_loaded_by_name_and_names_the_late_window(caplog):
    alert = encode_deadline_alert(deadlines.window_deadline(timedelta(hours=1)))
    path = alert["callback"]["__data__"]["path"]
    with caplog.at_level(logging.CRITICAL):
        said = asyncio.run(import_string(path)(context=CONTEXT))
    assert "LATE: the window [2026-11-21T09:00:00Z, 2026-11-21T10:00:00Z)" in said
    assert "scheduled__2026-11-21T10:05:00+00:00 is running" in said
    assert said in caplog.text


@pytest.fixture
def session():
    """A metadata database with nothing but the table of runs."""
    from airflow.models import DagRun

    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        columns = "id INTEGER PRIMARY KEY, dag_id, run_id, run_type, run_after"
        connection.exec_driver_sql(f"CREATE TABLE {DagRun.__tablename__} ({columns})")
    with Session(engine) as session:
        yield session


@pytest.mark.parametrize(
    ("run_type", "late_after"),
    [("scheduled", DUE + timedelta(minutes=30)), ("backfill", None), ("manual", None)],
)
def test_only_scheduled_windows_have_a_deadline(session, run_type, late_after):
    session.connection().exec_driver_sql(
        "INSERT INTO dag_run (dag_id, run_id, run_type, run_after) VALUES (?, ?, ?, ?)",
        ("d", "r", run_type, "2026-11-21 10:05:00.000000"),
    )
    alert = deadlines.window_deadline(timedelta(hours=1))
    due = alert.reference._evaluate_with(session=session, dag_id="d", run_id="r")
    assert (due and due + alert.interval) == late_after
