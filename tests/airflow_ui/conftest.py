"""Airflow's web security for tests: its real auth manager, an empty home, no database."""

import os
import sys
import tempfile

import pytest

if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="lockstep-airflow-tests-")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture
def token_of(monkeypatch):
    """A function from a role of Airflow (or None) to the token of a signed-in user with it."""
    monkeypatch.setenv(
        "AIRFLOW__API_AUTH__JWT_SECRET", "for this test alone, and 64 bytes long. " * 2
    )
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.revoked_token import RevokedToken

    # The list of tokens that were signed out is the one thing that needs a database.
    monkeypatch.setattr(RevokedToken, "is_revoked", classmethod(lambda cls, jti: False))
    manager = create_auth_manager()
    return lambda role: manager.generate_jwt(SimpleAuthManagerUser(username="someone", role=role))
