"""`lockstep pipeline`: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from lockstep.cli import app
from lockstep.pipeline.checks import ChecksManifest
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.modes import STREAM_MODES
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result import write_result
from lockstep.pipeline.source import SourceManifest
from lockstep.pipeline.steps import StepsManifest
from lockstep.pipeline.toml_file import Strict
from typer.testing import CliRunner, Result

from tests.pipeline.project_folder import (
    MANIFEST,
    TIME_ZONE,
    write,
    write_pipeline,
    write_source,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder: a source and two pipelines, in a terminal of 100 columns."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    write_source(tmp_path)
    write_pipeline(tmp_path, "readings_named", MANIFEST + TIME_ZONE)
    averages = f'{MANIFEST}view = "averages_in"\nmodes = ["lookup"]\n{TIME_ZONE}'
    write_pipeline(tmp_path, "averages", averages)
    return tmp_path


def lock(folder: Path, name: str) -> None:
    """Write the pipeline's result.lock, as Spark would find its types."""
    columns = {"reading_id": "bigint", "at": "timestamp"}
    version = plan_named(folder, name).version
    write(folder, f"sql/{name}/result.lock", write_result(columns, name, version))


def pipeline(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", *arguments])


def test_list_shows_each_pipeline(folder: Path) -> None:
    shown = pipeline("list")
    assert shown.exit_code == 0
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["pipeline", "source", "semantics", "key", "modes"],
        ["averages", "depot", "as_of_commit", "reading_id", "batch,", "lookup"],
        ["readings_named", "depot", "as_of_commit", "reading_id", "batch"],
    ]


def test_list_fits_a_hundred_columns_with_the_longest_names(folder: Path) -> None:
    modes = 'modes = ["lookup", "outbox", "message", "temporal", "transaction"]\n'
    write_pipeline(folder, "a" * 40, f'{MANIFEST}view = "a_in"\noutbox = "a_out"\n{modes}')
    shown = pipeline("list")
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "a" * 40 in shown.stdout


def test_list_shows_the_others_when_one_cannot_be_used(folder: Path) -> None:
    write_pipeline(folder, "averages", "")
    shown = pipeline("list")
    assert "readings_named" in shown.stdout
    assert isinstance(shown.exception, PipelineError)
    assert shown.exception.exit_code == 2
    assert str(shown.exception) == (
        "1 cannot be used (averages): `lockstep pipeline check` says why"
    )


def test_check_has_a_line_for_each_pipeline(folder: Path) -> None:
    for name in ("averages", "readings_named"):
        lock(folder, name)
    checked = pipeline("check")
    assert checked.exit_code == 0
    assert checked.stdout.splitlines() == [
        "averages: no problem (batch, lookup)",
        "readings_named: no problem (batch)",
    ]
    assert checked.stderr == ""


def test_check_of_one_looks_at_no_other(folder: Path) -> None:
    write_pipeline(folder, "averages", "no")
    lock(folder, "readings_named")
    assert pipeline("check", "readings_named").stdout == "readings_named: no problem (batch)\n"
    assert pipeline("check", "averages").exit_code == 2


def test_check_says_which_types_of_results_are_not_locked(folder: Path) -> None:
    lock(folder, "averages")
    write(folder, "sql/averages/query.sql", "SELECT id AS reading_id FROM readings\n")
    checked = pipeline("check")
    assert checked.exit_code == 0
    changed, missing = checked.stdout.splitlines()
    assert "result.lock is of version" in changed
    assert "`lockstep pipeline lock averages` writes it (batch, lookup)" in changed
    assert missing == (
        "readings_named: include/sql/readings_named/result.lock is missing: "
        "`lockstep pipeline lock readings_named` writes it (batch)"
    )


def test_check_names_the_place_of_a_query_that_is_refused(folder: Path) -> None:
    lock(folder, "readings_named")
    write(folder, "sql/averages/query.sql", "SELECT id AS reading_id,\n  aat FROM readings\n")
    checked = pipeline("check")
    assert checked.exit_code == 2
    assert checked.stdout == "readings_named: no problem (batch)\n"
    assert checked.stderr.startswith("include/sql/averages/query.sql:2:3: `aat`")


def test_check_names_every_problem_with_file_and_line(folder: Path) -> None:
    write_pipeline(folder, "averages", f"{MANIFEST}kye = 1\ntime = 2\n")
    write(folder, "sql/readings_named/query.sql", "")
    checked = pipeline("check")
    assert checked.exit_code == 2
    assert checked.stdout == ""
    assert checked.stderr.splitlines() == [
        "include/sql/averages/pipeline.toml:6: kye: is no key of this table: did you mean key?",
        "include/sql/averages/pipeline.toml:7: time: must be a string, and is an integer",
        (
            "include/sql/readings_named/query.sql:1: is empty: write the query, one SELECT of "
            "Spark SQL"
        ),
    ]


CHECKS = """\
format_version = 1
[[check]]
name = "known"
severity = "fail"
column = "taken"
expectation = "ExpectColumnValuesToNotBeNull"
expected = "known"
"""


def test_check_names_the_problems_of_checks_by_themselves_and_against_the_result(
    folder: Path,
) -> None:
    file = "sql/readings_named/checks.toml"
    write(folder, file, CHECKS.replace("fail", "fial"))
    assert pipeline("check").stderr == (
        f'include/{file}:4: check[0].severity: "fial" is not known: did you mean fail?\n'
    )
    write(folder, file, CHECKS)
    assert "readings_named/result.lock is missing" in pipeline("check").stderr
    lock(folder, "readings_named")
    checked = pipeline("check", "readings_named")
    assert (checked.exit_code, checked.stderr) == (
        2,
        (
            f"include/{file}:5: check[0].column: the result has no column taken: "
            "there are: at, reading_id\n"
        ),
    )
    write(folder, file, CHECKS.replace("taken", "at"))
    assert pipeline("check", "readings_named").exit_code == 0


def test_check_names_the_problems_of_a_pipelines_own_tests(folder: Path) -> None:
    file = "sql/readings_named/tests/one.toml"
    write(folder, file, "format_version = 1\n[[transaction]]\nwrite = [{ row = {} }]\n")
    checked = pipeline("check", "readings_named")
    assert checked.exit_code == 2
    assert checked.stderr.startswith(f"include/{file}:3: transaction[0].write[0]: needs exactly")


def test_check_of_an_unknown_name_says_which_there_are(folder: Path) -> None:
    error = pipeline("check", "pizzeria").exception
    assert isinstance(error, PipelineError)
    assert str(error) == "there is no pipeline pizzeria: there are: averages, readings_named"


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_project_without_pipelines_says_what_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    write(tmp_path, "sql/pizzeria/hourly.sql", "SELECT 1")
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(tmp_path))
    shown = pipeline(command)
    assert (shown.exit_code, shown.stdout) == (
        0,
        "the project has no pipeline: one is a folder of include/sql with a pipeline.toml\n",
    )


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ((), PipelineManifest),
        (("pipeline",), PipelineManifest),
        (("source",), SourceManifest),
        (("checks",), ChecksManifest),
        (("tests",), StepsManifest),
    ],
)
def test_schema_prints_every_key_with_its_description(
    arguments: tuple[str, ...], model: type[Strict]
) -> None:
    shown = json.loads(pipeline("schema", *arguments).stdout)
    assert list(shown["properties"]) == list(model.model_fields)
    for table in (shown, *shown.get("$defs", {}).values()):
        if "properties" in table:
            assert table["additionalProperties"] is False
            assert all(key["description"] for key in table["properties"].values())


def test_the_schema_offers_only_what_this_version_reads() -> None:
    keys = json.loads(pipeline("schema").stdout)["properties"]
    assert keys["semantics"]["enum"] == ["as_of_commit"]
    assert keys["sources"]["maxItems"] == 1
    assert keys["modes"]["items"]["enum"] == list(STREAM_MODES)


def test_a_schemas_defaults_are_as_a_manifest_writes_them() -> None:
    tables = json.loads(pipeline("schema").stdout)["$defs"]
    assert tables["Schedule"]["properties"]["every"]["default"] == "1h"
    assert tables["Schedule"]["properties"]["delay"]["default"] == "5m"
    assert tables["Tolerate"]["properties"]["raced_share_max"]["default"] == 0.01
