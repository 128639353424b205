"""Mode lookup where what is looked up has a key of two columns: one row, not all of a branch."""

from collections.abc import Callable

import pytest
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sources import row_lookup
from lockstep.sources.lookup_statement import look_up_statement
from lockstep.sources.postgres import connect_to
from lockstep.sources.row_lookup import Question
from lockstep.sources.source_database import reader_of

from tests.depot.conftest import DEPOT
from tests.depot.writer import BOOKED, PRICED, clerk
from tests.project import PROJECT_DIR

pytestmark = pytest.mark.services
NOW = "SELECT clock_timestamp()"
FIRST = "SELECT consignment::text, branch, customer_no FROM freight.consignments ORDER BY booked_at"


@pytest.fixture(params=[BOOKED, PRICED])
def look_up(request: pytest.FixtureRequest, depot: Settings) -> Callable[[str], dict]:
    """What is seen of a consignment, or of its first line."""
    project = read_project(PROJECT_DIR)
    source, plan = project.source(DEPOT), plan_of(project.pipeline(request.param))

    def seen(consignment: str) -> dict:
        key = (consignment, 1)[: len(plan.key)]
        target = reader_of(depot, source)
        with connect_to(target, application_name="lockstep tests") as connection:
            connection.autocommit = True
            statement = look_up_statement(connection, source.catalog, plan, target.role)
            rows = row_lookup._rows(connection, Question(target, statement, plan.result), [key])
        return row_lookup._as_arrow([key], rows, plan.result).to_pylist()[0]

    return seen


def test_the_customer_itself_counts_and_no_other_of_its_branch(
    depot: Settings, look_up: Callable[[str], dict]
) -> None:
    with clerk(depot) as connection:
        consignment, branch, number = connection.execute(FIRST).fetchone()
        rename = "UPDATE freight.customers SET company = 'new' WHERE branch = %s AND customer_no "
        (before,) = connection.execute(NOW).fetchone()
        connection.execute(f"{rename} <> %s", [branch, number])
        seen = look_up(consignment)
        assert seen["is_whole"]
        assert seen["newest_committed_at"] < before
        connection.execute(f"{rename} = %s", [branch, number])
    seen = look_up(consignment)
    assert (seen["is_whole"], seen["company"]) == (True, "new")
    assert seen["newest_committed_at"] > before
