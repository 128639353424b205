"""All sources and pipelines of a project's folder: what can be used, and the problems of the rest.

A pipeline is a folder of include/sql with a pipeline.toml, a source one of include/sources with a
source.toml; other folders are passed over. Nothing is kept: who asks again reads again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lockstep.pipeline import names
from lockstep.pipeline.catalog import Catalog
from lockstep.pipeline.checks import Checks
from lockstep.pipeline.cross_checks import zones
from lockstep.pipeline.errors import ManifestError, PipelineError, Problem, meant
from lockstep.pipeline.folder import PipelineFolder, SourceFolder, read_pipeline, read_source
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES
from lockstep.pipeline.source import SourceManifest


@dataclass(frozen=True)
class Source:
    """A source whose folder has no problem."""

    name: str
    manifest: SourceManifest
    catalog: Catalog

    @property
    def slot(self) -> str:
        """Its replication slot, unique in the database's cluster."""
        return self.manifest.slot or names.slot(self.manifest.database, self.name)

    @property
    def publication(self) -> str:
        return self.manifest.publication or names.publication(self.name)

    @property
    def connector(self) -> str:
        """Its connector in Kafka Connect, and Debezium's topic.prefix."""
        return self.manifest.connector or names.connector(self.name)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A pipeline without a problem in its folder or its source's, equal to itself alone.

    query: the text of query.sql.
    result_lock: the text of result.lock; None when there is none. checks: None without a file.
    """

    name: str
    manifest: PipelineManifest
    source: Source
    query: str
    result_lock: str | None = None
    checks: Checks | None = None


@dataclass(frozen=True)
class Project:
    """By name, in the order of names. Problems of a pipeline include its source's."""

    sources: Mapping[str, Source]
    pipelines: Mapping[str, Pipeline]
    source_problems: Mapping[str, tuple[Problem, ...]]
    pipeline_problems: Mapping[str, tuple[Problem, ...]]

    def pipeline(self, name: str) -> Pipeline:
        """Raises ManifestError when it has problems, PipelineError when there is none."""
        if name in self.pipeline_problems:
            raise ManifestError(self.pipeline_problems[name])
        if name not in self.pipelines:
            known = meant(name, [*self.pipelines, *self.pipeline_problems])
            raise PipelineError(f"there is no pipeline {name}: {known}")
        return self.pipelines[name]

    def source(self, name: str) -> Source:
        """Raises ManifestError when it has problems, PipelineError when there is none."""
        if name in self.source_problems:
            raise ManifestError(self.source_problems[name])
        if name not in self.sources:
            known = meant(name, [*self.sources, *self.source_problems])
            raise PipelineError(
                f"there is no source {name}: {known}; `lockstep source add` makes one"
            )
        return self.sources[name]

    def require_sound(self) -> None:
        """Raises ManifestError with every problem of every source and pipeline."""
        both = (*self.source_problems.values(), *self.pipeline_problems.values())
        if found := [problem for problems in both for problem in problems]:
            raise ManifestError(found)


def read_project(folder: Path) -> Project:
    """Everything in a project's folder. Problems are returned by name, and none is raised."""
    read = {name: read_source(folder, name) for name in _names(folder / SOURCES, SOURCE_FILE)}
    sources = {
        name: Source(name, one.manifest, one.catalog)
        for name, one in read.items()
        if not one.problems
    }
    folders = _pipeline_folders(folder, read)
    problems = _pipeline_problems(folders, read)
    pipelines = {
        name: Pipeline(
            name,
            one.manifest,
            sources[one.manifest.sources[0]],
            one.query,
            one.result_lock,
            one.checks,
        )
        for name, one in folders.items()
        if not problems[name]
    }
    return Project(
        sources,
        pipelines,
        {name: one.problems for name, one in read.items() if one.problems},
        {name: found for name, found in problems.items() if found},
    )


def _names(folder: Path, manifest: str) -> list[str]:
    """The folders that have a manifest."""
    return sorted(file.parent.name for file in folder.glob(f"*/{manifest}"))


def _pipeline_folders(
    folder: Path, sources: Mapping[str, SourceFolder]
) -> dict[str, PipelineFolder]:
    catalogs = {name: source.catalog for name, source in sources.items()}
    names = _names(folder / PIPELINES, PIPELINE_FILE)
    return {name: read_pipeline(folder, name, catalogs) for name in names}


def _pipeline_problems(
    folders: Mapping[str, PipelineFolder], sources: Mapping[str, SourceFolder]
) -> dict[str, tuple[Problem, ...]]:
    """Of each folder: its own, those of names and time zones next to others, and its source's."""
    problems = {name: list(one.problems) for name, one in folders.items()}
    for name in folders.keys() & sources.keys():
        file = PIPELINES / name / PIPELINE_FILE
        message = f"the folder's name {name} is a source's as well: choose another name"
        problems[name].append(Problem(file, 1, "", message))
    for name, problem in _zone_conflicts(folders):
        problems[name].append(problem)
    for name, one in folders.items():
        if one.manifest and (source := sources.get(one.manifest.sources[0])):
            problems[name] += source.problems
    return {name: tuple(sorted(set(found))) for name, found in problems.items()}


def _zone_conflicts(folders: Mapping[str, PipelineFolder]) -> list[tuple[str, Problem]]:
    """A column's values are in one time zone, whichever pipeline reads them."""
    conflicts, first = [], {}
    for name, one in folders.items():
        for key, column, zone in zones(one.manifest) if one.manifest else ():
            there, there_zone = first.setdefault(column, (name, zone))
            if zone != there_zone:
                message = f"is {zone} here and {there_zone} in {there}: a column has one time zone"
                conflicts.append((name, one.toml.problem(("time_zones", key), message)))
    return conflicts
