"""All that is named after one pipeline and its source, for those that work for that pipeline alone.

Only names are read here, out of the two manifests: what is wrong with a folder is found elsewhere
(project.py), and so a page or a DAG whose pipeline is broken still has its name.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.model.modes import HISTORY
from lockstep.pipeline import names
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.names import Job
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES


@dataclass(frozen=True)
class PipelineNames:
    """The names of a pipeline's tables (paths below the lakehouse), topic, DAGs and so on.

    database, slot, publication and connector are its source's. modes: the streams that its manifest
    names, in their usual order.
    """

    pipeline: str
    source: str
    database: str
    slot: str
    publication: str
    connector: str
    modes: tuple[Mode, ...] = ()

    @property
    def hourly_table(self) -> str:
        return names.table_path(self.pipeline, Mode.BATCH)

    def change_log(self, mode: str) -> str:
        """The table of a stream's mode."""
        return names.table_path(self.pipeline, Mode(mode))

    @property
    def history(self) -> str:
        """The source's history."""
        return names.history_path(self.source)

    @property
    def quarantine(self) -> str:
        """The records of the source's change topic that were given up."""
        return names.quarantine_path(self.source)

    @property
    def published_table(self) -> str:
        return names.published_path(self.pipeline)

    @property
    def ledger(self) -> str:
        return names.ledger_path(self.pipeline)

    @property
    def differences(self) -> str:
        return names.differences_path(self.pipeline)

    @property
    def cutovers(self) -> str:
        return names.cutovers_path(self.pipeline)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table, for a lakehouse whose folders cannot be listed (an object store)."""
        return (
            self.hourly_table,
            *map(self.change_log, STREAM_MODES),
            self.history,
            self.quarantine,
            names.METRICS_PATH,
            self.ledger,
            self.differences,
            self.published_table,
            self.cutovers,
        )

    def worker(self, mode: str) -> str:
        """The address of a stream's mode, of the publisher, or of the history's writer."""
        if mode == HISTORY:
            return names.history_address(self.source)
        return names.SEPARATOR.join((self.pipeline, mode))

    @property
    def change_topic(self) -> str:
        return names.change_topic(self.source)

    @property
    def hourly_asset_uri(self) -> str:
        """Of the asset that a run announces when a window is written and checked."""
        return f"lockstep://{self.hourly_table}"

    @property
    def hourly_dag_id(self) -> str:
        return names.mode_dag_id(self.pipeline, Mode.BATCH)

    def stream_dag_id(self, mode: str) -> str:
        """The DAG that keeps a stream running."""
        return names.mode_dag_id(self.pipeline, Mode(mode))

    @property
    def parity_dag_id(self) -> str:
        return names.job_dag_id(self.pipeline, Job.PARITY)

    @property
    def repair_dag_id(self) -> str:
        return names.job_dag_id(self.pipeline, Job.REPAIR)

    @property
    def publish_dag_id(self) -> str:
        return names.job_dag_id(self.pipeline, Job.PUBLISH)

    @property
    def cutover_dag_id(self) -> str:
        return names.job_dag_id(self.pipeline, Job.CUTOVER)


def names_of(project: Path, pipeline: str = "") -> PipelineNames:
    """Those of a pipeline; without a name, of the project's own choice, or of its only one.

    A project chooses by `[tool.lockstep] pipeline` in its pyproject.toml. Raises PipelineError when
    there is no such pipeline, when there are several and none is chosen, or when a manifest cannot
    be read.
    """
    pipeline = pipeline or _chosen_or_only(project)
    file = project / PIPELINES / pipeline / PIPELINE_FILE
    source = str(*_value(file, "sources", list)[:1])
    manifest = project / SOURCES / source / SOURCE_FILE
    database = _value(manifest, "database", str)
    own = _read(manifest)
    return PipelineNames(
        pipeline=pipeline,
        source=source,
        database=database,
        slot=own.get("slot") or names.slot(database, source),
        publication=own.get("publication") or names.publication(source),
        connector=own.get("connector") or names.connector(source),
        modes=tuple(mode for mode in STREAM_MODES if mode in _read(file).get("modes", ())),
    )


def own_pipeline(project: Path) -> str:
    """The pipeline that the project chooses, or its only one; empty when there is neither."""
    try:
        return _chosen_or_only(project)
    except PipelineError:
        return ""


def _chosen_or_only(project: Path) -> str:
    file = project / "pyproject.toml"
    own = _read(file).get("tool", {}).get("lockstep", {}) if file.exists() else {}
    if chosen := str(own.get("pipeline", "")):
        return chosen
    found = sorted(one.parent.name for one in (project / PIPELINES).glob(f"*/{PIPELINE_FILE}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise PipelineError(
            f"{project} has no pipeline: one is a folder of {PIPELINES} with a {PIPELINE_FILE}"
        )
    raise PipelineError(
        f"{project} has the pipelines {', '.join(found)}: choose one by LOCKSTEP_PIPELINE, or by "
        "`[tool.lockstep] pipeline` in its pyproject.toml"
    )


def _value(file: Path, key: str, kind: type) -> Any:
    value = _read(file).get(key)
    if not value or not isinstance(value, kind):
        raise PipelineError(
            f"{file}: `{key}` is missing or of another type; `lockstep pipeline check` says more"
        )
    return value


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"there is no {file}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from error
