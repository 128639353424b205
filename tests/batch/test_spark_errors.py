"""What Spark says when its surroundings fail becomes an error that a person can act on."""

import pytest
from lockstep.batch.spark_errors import spark_failures
from lockstep.errors import LakehouseError, LockstepError
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError


class SparkError(Exception):
    """Stands in for py4j's, of which only the text is read."""


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("java.io.IOException: No space left on device", LakehouseError, "is full"),
        ("java.io.IOException: Read-only file system", LakehouseError, "cannot be written"),
        (
            'org.postgresql.util.PSQLException: ERROR: relation "clients" does not exist\n  at',
            PostgresUnavailableError,
            'relation "clients" does not exist; the table is as it was',
        ),
    ],
)
def test_a_known_failure_says_what_to_do(text: str, kind: type[LockstepError], said: str) -> None:
    with pytest.raises(kind, match=said), spark_failures(Settings()):
        raise SparkError(text)


def test_any_other_failure_keeps_its_own_traceback() -> None:
    with pytest.raises(SparkError), spark_failures(Settings()):
        raise SparkError("java.lang.IllegalStateException: a defect")


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(LockstepError, match=r"^ours$"), spark_failures(Settings()):
        raise LockstepError("ours")
