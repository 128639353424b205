"""A project's folder: what is a source or a pipeline, and every problem of its files."""

from pathlib import Path

import pytest
from lockstep.pipeline.errors import ManifestError, PipelineError
from lockstep.pipeline.project import read_project

from tests.pipeline.project_folder import (
    MANIFEST,
    QUERY,
    READINGS,
    SOURCE,
    TIME_ZONE,
    write,
    write_pipeline,
    write_source,
)
from tests.project import PROJECT_DIR

LOCK = Path("include", "sources", "depot", "catalog.lock")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One source and one pipeline, without a problem."""
    write_source(tmp_path)
    write_pipeline(tmp_path, "readings_named")
    return tmp_path


def problems(folder: Path) -> list[str]:
    try:
        read_project(folder).require_sound()
    except ManifestError as error:
        return str(error).splitlines()
    return []


def test_sources_and_pipelines_are_read_by_their_folders_names(folder: Path) -> None:
    write_pipeline(folder, "averages")
    project = read_project(folder)
    assert list(project.sources) == ["depot"]
    assert list(project.pipelines) == ["averages", "readings_named"]
    pipeline = project.pipeline("readings_named")
    assert pipeline.query == QUERY
    assert pipeline.source.catalog.table(READINGS.name) == READINGS
    assert pipeline.source.manifest.database == "depot"


def test_what_is_no_pipeline_or_source_is_passed_over(folder: Path) -> None:
    write(folder, "sql/pizzeria/parity/compare.sql", "SELECT 1")
    write(folder, "sql/Not A Pipeline/notes.md", "")
    write(folder, "sql/pipeline.toml", "no = [")
    write(folder, "sources/README.md", "")
    write(folder, "sql/readings_named/notes.toml", "later = 1")
    write(folder, "sql/readings_named/tests/some.yaml", "later: 1")
    assert problems(folder) == []
    assert list(read_project(folder).pipelines) == ["readings_named"]


def test_a_folder_without_anything_is_an_empty_project(tmp_path: Path) -> None:
    project = read_project(tmp_path)
    assert (dict(project.sources), dict(project.pipelines)) == ({}, {})
    project.require_sound()


def test_this_projects_own_folder_has_no_problem() -> None:
    assert problems(PROJECT_DIR) == []


def test_an_unknown_pipeline_is_an_error_with_the_name_probably_meant(folder: Path) -> None:
    with pytest.raises(PipelineError) as error:
        read_project(folder).pipeline("reading_named")
    assert str(error.value) == ("there is no pipeline reading_named: did you mean readings_named?")


def test_a_pipeline_with_a_problem_does_not_take_its_neighbours_along(folder: Path) -> None:
    write_pipeline(folder, "averages", MANIFEST.replace("readings", "reading"))
    project = read_project(folder)
    assert list(project.pipelines) == ["readings_named"]
    with pytest.raises(ManifestError, match=r"averages/pipeline\.toml:4: fact: source depot has"):
        project.pipeline("averages")


def test_a_sources_problem_is_its_pipelines_as_well_and_comes_once(folder: Path) -> None:
    write_pipeline(folder, "averages")
    write_source(folder, text=SOURCE.replace("host", "hots"))
    found = [
        "include/sources/depot/source.toml:3: hots: is no key of this table: did you mean host?",
    ]
    assert problems(folder) == found
    project = read_project(folder)
    assert (dict(project.sources), dict(project.pipelines)) == ({}, {})
    with pytest.raises(ManifestError) as error:
        project.pipeline("averages")
    assert str(error.value).splitlines() == found


def test_a_missing_catalog_says_what_writes_it(folder: Path) -> None:
    (folder / LOCK).unlink()
    assert problems(folder) == [f"{LOCK}:1: is missing: write it with `lockstep source add depot`"]


def test_a_damaged_catalog_is_named_once(folder: Path) -> None:
    write(folder, "sources/depot/catalog.lock", "[]")
    assert problems(folder) == [
        (
            f"{LOCK}:1: catalog.lock is damaged (TypeError: list indices must be integers or "
            "slices, not str): write it again with `lockstep source add`, or restore it "
            "from your repository"
        )
    ]


def test_another_sources_catalog_is_refused(folder: Path) -> None:
    write_source(folder, "other")
    (folder / "include/sources/other/catalog.lock").replace(folder / LOCK)
    write_source(folder, "other")
    assert problems(folder) == [
        f"{LOCK}:1: is of source other: write this one's with `lockstep source add depot`"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "is missing"),
        (" \n", "is empty"),
    ],
)
def test_a_pipeline_without_its_query_is_refused(
    folder: Path, text: str | None, fault: str
) -> None:
    file = folder / "include/sql/readings_named/query.sql"
    file.unlink()
    if text:
        file.write_text(text)
    assert problems(folder) == [
        f"include/sql/readings_named/query.sql:1: {fault}: write the query, one SELECT of Spark SQL"
    ]


def test_a_file_that_is_no_utf_8_is_named(folder: Path) -> None:
    (folder / "include/sql/readings_named/pipeline.toml").write_bytes(b"# \xfc\n")
    assert problems(folder) == [
        "include/sql/readings_named/pipeline.toml:1: is not UTF-8 (byte 2): save it as UTF-8"
    ]


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / LOCK).unlink()
    (folder / LOCK).mkdir()
    assert problems(folder) == [f"{LOCK}:1: cannot be read (Is a directory): see its rights"]


def test_a_view_file_needs_a_view_in_the_manifest(folder: Path) -> None:
    write(folder, "sql/readings_named/view.sql", "CREATE VIEW readings_in AS SELECT 1")
    assert problems(folder) == [
        (
            "include/sql/readings_named/pipeline.toml:1: view: is missing, and there is a "
            "view.sql: name the view that it makes"
        )
    ]


def test_a_folders_name_must_be_a_name(folder: Path) -> None:
    write_pipeline(folder, "Averages")
    write_source(folder, "lookup")
    assert problems(folder) == [
        (
            "include/sources/lookup/source.toml:1: the folder's name lookup is reserved: it is a "
            "mode; choose another name"
        ),
        (
            "include/sql/Averages/pipeline.toml:1: the folder's name Averages cannot be a name: it "
            "is to have at most 40 of a-z, 0-9 and _, a letter first, no _ at the "
            "end and no two in a row"
        ),
    ]


def test_a_pipeline_may_not_have_a_sources_name(folder: Path) -> None:
    write_pipeline(folder, "depot")
    assert problems(folder) == [
        (
            "include/sql/depot/pipeline.toml:1: the folder's name depot is a source's as well: "
            "choose another name"
        )
    ]


def test_a_column_has_one_time_zone_in_all_pipelines(folder: Path) -> None:
    write_pipeline(folder, "averages", MANIFEST + TIME_ZONE)
    write_pipeline(folder, "readings_named", MANIFEST + TIME_ZONE)
    assert problems(folder) == []
    other = TIME_ZONE.replace("readings.at", "public.readings.at").replace("Europe/Berlin", "UTC")
    write_pipeline(folder, "readings_named", MANIFEST + other)
    assert problems(folder) == [
        (
            'include/sql/readings_named/pipeline.toml:7: time_zones."public.readings.at": is UTC '
            "here and Europe/Berlin in averages: a column has one time zone"
        )
    ]


def test_columns_of_two_sources_have_time_zones_of_their_own(folder: Path) -> None:
    write_source(folder, "other")
    write_pipeline(folder, "averages", MANIFEST + TIME_ZONE)
    other = (MANIFEST + TIME_ZONE).replace('"depot"', '"other"').replace("Europe/Berlin", "UTC")
    write_pipeline(folder, "readings_named", other)
    assert problems(folder) == []


def test_all_files_problems_come_together_by_file_and_line(folder: Path) -> None:
    write_source(folder, text=f"{SOURCE}port = 0\n")
    write_pipeline(folder, "averages", f"{MANIFEST}modes = ['lookup', 'x']\n")
    (folder / "include/sql/averages/query.sql").unlink()
    assert [line.split(": ")[0] for line in problems(folder)] == [
        "include/sources/depot/source.toml:6",
        "include/sql/averages/pipeline.toml:6",
        "include/sql/averages/query.sql:1",
    ]
