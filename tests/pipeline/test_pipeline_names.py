"""Which pipeline is worked for, and what is named after it and its source."""

from pathlib import Path

import pytest
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.pipeline_names import PipelineNames, names_of
from lockstep.settings import Settings
from pizzeria import names as pizzeria

from tests.project import PROJECT_DIR

SOURCE = 'database = "Plant"\n'


def project(folder: Path, *pipelines: str, source: str = SOURCE) -> Path:
    """A project with these pipelines of the source `plant`."""
    write(folder / "include/sources/plant/source.toml", source)
    for name in pipelines:
        write(folder / f"include/sql/{name}/pipeline.toml", 'sources = ["plant"]\n')
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_the_only_pipeline_is_worked_for(tmp_path: Path) -> None:
    assert names_of(project(tmp_path, "readings")).pipeline == "readings"


def test_of_several_one_is_chosen_by_the_project_or_for_a_process(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.lockstep]\npipeline = "ratings"\n')
    folder = project(tmp_path, "readings", "ratings")
    assert names_of(folder).pipeline == "ratings"
    assert Settings(project=folder, pipeline="readings").names.pipeline == "readings"


@pytest.mark.parametrize(
    ("pipelines", "asked", "said"),
    [
        ([], "", "has no pipeline: one is a folder of include/sql"),
        (["a", "b"], "", "has the pipelines a, b: choose one by LOCKSTEP_PIPELINE"),
        (["a"], "c", "there is no .*/include/sql/c/pipeline.toml"),
    ],
)
def test_without_a_choice_it_is_said_how_to_choose(
    tmp_path: Path, pipelines: list[str], asked: str, said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        names_of(project(tmp_path, *pipelines), asked)


@pytest.mark.parametrize(
    ("source", "said"),
    [("database = ", "cannot be read"), ("port = 1\n", "`database` is missing")],
)
def test_a_manifest_that_says_no_names_is_named(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(PipelineError, match=rf"sources/plant/source\.toml.* {said}"):
        names_of(project(tmp_path, "readings", source=source))


def test_names_follow_from_the_folders_unless_the_source_says_others(tmp_path: Path) -> None:
    names = names_of(project(tmp_path, "readings"))
    assert (names.publication, names.connector) == ("lockstep__plant", "lockstep.plant")
    assert names.slot.startswith("lockstep__plant__0")  # a database's name may be no slot's
    chosen = 'slot = "own"\npublication = "theirs"\nconnector = "ours"\n'
    names = names_of(project(tmp_path, "readings", source=SOURCE + chosen))
    assert (names.slot, names.publication, names.connector) == ("own", "theirs", "ours")


def test_each_table_dag_and_worker_has_a_name_of_its_own() -> None:
    names = PipelineNames("readings", "plant", "plant", "slot", "publication", "connector")
    assert len(set(names.tables)) == len(names.tables)
    jobs = (names.parity_dag_id, names.repair_dag_id, names.publish_dag_id, names.cutover_dag_id)
    dags = (names.hourly_dag_id, *map(names.stream_dag_id, ("outbox", "lookup")), *jobs)
    assert len(set(dags)) == len(dags)
    assert names.worker("outbox") == "readings__outbox"
    assert names.worker("history") == "plant__history"


def test_the_names_of_the_example_are_those_of_its_folders() -> None:
    assert names_of(PROJECT_DIR) == pizzeria.NAMES
