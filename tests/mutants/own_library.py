"""A plugin of pytest for copies of the project: the library under test is the copy's own.

Otherwise the tests of a mutant would run against the library without it, and say that it survived.
"""

from pathlib import Path

import lockstep
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError, which ends pytest before any test, for another library."""
    found = Path(lockstep.__file__).resolve()
    if not found.is_relative_to(config.rootpath.resolve()):
        raise pytest.UsageError(f"the library under test is {found}, not that of {config.rootpath}")
