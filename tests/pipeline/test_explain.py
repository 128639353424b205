"""What is said of each table of a pipeline, by the repository's own."""

import pytest
from lockstep.cli import app
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.explain import Explained, explain
from lockstep.pipeline.plan import plan_named
from typer.testing import CliRunner

from tests.project import PROJECT_DIR


def explained(pipeline: str) -> dict[str, Explained]:
    return {str(one.table): one for one in explain(plan_named(PROJECT_DIR, pipeline))}


def test_the_fact_comes_first_and_its_change_makes_its_own_row() -> None:
    fact = next(iter(explained("orders_enriched").values()))
    assert fact.table == TableName("public", "orders")
    assert fact.found_by == ("its own key, id",)
    assert "the row of its key is made again" in fact.on_change


def test_a_look_up_names_its_columns_what_they_are_equal_to_and_what_it_gives() -> None:
    found = explained("orders_enriched")
    clients = found["public.clients"]
    assert clients.found_by == ("id = public.table_assignment.client_id, its key",)
    assert clients.gives == ("client_name",)
    assert "rows of before stay" in clients.on_change
    assert found["public.pizzas"].found_by == ("id = an element of public.orders.pizzas, its key",)
    assert found["public.table_assignment"].gives == (), "it only leads on"


def test_a_childs_change_makes_the_row_of_its_fact() -> None:
    lines = explained("consignments_packed")["freight.consignment_lines"]
    assert "the row of its fact is made again" in lines.on_change


@pytest.mark.parametrize("pipeline", ["orders_enriched", "consignments_packed", "lines_priced"])
def test_the_command_names_every_table_on_a_line_of_its_own(
    pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = CliRunner().invoke(app, ["pipeline", "explain", pipeline])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert all(len(line) <= 110 for line in lines)
    assert [line for line in lines[1:] if line and line[0] != " "] == list(explained(pipeline))
