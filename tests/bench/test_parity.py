"""`lockstep bench parity` without its peer."""

import importlib.util
from pathlib import Path

import pytest
from lockstep.errors import ConfigurationError
from lockstep.settings import Settings
from lockstep_tools.bench import parity


def test_without_the_peer_it_says_what_to_install_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match=r"datacompy .* requirements-dev\.txt"):
        parity.measure(Settings(home=tmp_path), orders=1000, rounds=1, on_progress=print)
