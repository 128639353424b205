"""Great Expectations, kept quiet: turns declared checks into a suite, runs it, keeps its results.

The store is a file-based GX project below one folder: gx/ holds suites and results, data_docs/ the
pages. One process at a time uses it. Great Expectations is imported only when a store is opened
(3 s), never with this module. Knows no table; what the pages look like is in data_docs.py.
"""

import logging
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from lockstep.file_lock import FileLock
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.quality import data_docs
from lockstep.quality.errors import QualityStoreError
from lockstep.quality.gx_results import check_results
from lockstep.quality.report import CheckResult
from lockstep.quality.suite import Check, Suite

if TYPE_CHECKING:
    import great_expectations as gx
    from great_expectations.core import RunIdentifier

LOCK_DEADLINE_SECONDS = 300
"""A backfill may check many windows at once; each holds the lock for a few seconds."""

_GX_SEVERITY = {CheckStatus.FAIL: "critical", CheckStatus.WARN: "warning"}


@contextmanager
def opened(folder: Path) -> Iterator["GxStore"]:
    """The store below a folder, made if need be, for this process alone.

    Raises QualityStoreError when the folder cannot be written, when what is there cannot be read,
    or when other checks hold it for LOCK_DEADLINE_SECONDS.
    """
    busy = QualityStoreError(
        f"other quality checks have held {folder} for {LOCK_DEADLINE_SECONDS} s; "
        "see which process has its .lock open, then check the window again"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock.acquire(
            folder / ".lock", lambda _: busy, patience_seconds=LOCK_DEADLINE_SECONDS
        )
    except OSError as error:
        raise QualityStoreError(
            f"the quality checks cannot write to {folder}: {error.strerror}"
        ) from error
    with lock:
        yield GxStore(_open_context(folder), folder)


def _open_context(folder: Path) -> "gx.data_context.FileDataContext":
    # It reports its use to its makers and logs hundreds of lines at info, unless switched off
    # before.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        from great_expectations.data_context import data_context_variables

    # One of its modules names its logger by its file.
    logging.getLogger(data_context_variables.__file__).setLevel(logging.WARNING)
    try:
        context = gx.get_context(mode="file", project_root_dir=folder)
        context.enable_analytics(False)
        context.variables.progress_bars = {"globally": False}
        context.variables.data_docs_sites = {data_docs.SITE: data_docs.SITE_CONFIG}
        context.variables.save()
    except OSError as error:
        raise QualityStoreError(
            f"the quality checks cannot write to {folder}: {error.strerror}"
        ) from error
    except Exception as error:
        raise QualityStoreError(
            f"the results of earlier quality checks in {folder / 'gx'} cannot be read "
            f"({type(error).__name__}: {error}); move that folder away: it holds only results"
        ) from error
    return context


@dataclass(frozen=True)
class GxStore:
    """An opened store."""

    context: "gx.data_context.FileDataContext"
    folder: Path

    def record(self, window: Window, subject: str) -> "Recording":
        """Begin the results of one window, under its and the subject's name and the time of now."""
        from great_expectations.core import RunIdentifier

        name = data_docs.run_name(window, subject)
        return Recording(self, RunIdentifier(run_name=name, run_time=datetime.now(UTC)))


@dataclass(frozen=True)
class Part:
    """A suite and what it looks at. label: names the row at a place of the frame, for people."""

    suite: Suite
    frame: pa.Table
    label: Callable[[int], str]


@dataclass(frozen=True)
class Recording:
    """The results of one gx_checkpoint over the parts of a window."""

    store: GxStore
    run_id: "RunIdentifier"
    identifiers: list = field(default_factory=list)

    def validate(
        self, name: str, parts: Sequence[Part], facts: Mapping[str, object]
    ) -> tuple[CheckResult, ...]:
        """Run the gx_checkpoint `name` over all parts and keep its results; part by part.

        An expectation that could not be evaluated counts as failed, whatever its severity.
        """
        frames = self.store.folder / "frames"
        frames.mkdir(exist_ok=True)
        try:
            gx_checkpoint = _gx_checkpoint(self.store.context, name, parts, frames)
            outcome = gx_checkpoint.run(expectation_parameters=dict(facts), run_id=self.run_id)
        finally:
            shutil.rmtree(frames, ignore_errors=True)
        of_suite = {
            identifier.expectation_suite_identifier.name: (identifier, validation)
            for identifier, validation in outcome.run_results.items()
        }
        checks: list[CheckResult] = []
        for part in parts:
            identifier, validation = of_suite[part.suite.name]
            self.identifiers.append(identifier)
            checks += check_results(part.suite, validation, part.label, facts)
        return tuple(checks)

    def build_pages(self) -> dict[str, str]:
        """Build a page for each suite validated; their paths below the Data Docs, by suite."""
        pages = data_docs.build_pages(self.store.context, self.identifiers)
        suites = [one.expectation_suite_identifier.name for one in self.identifiers]
        return dict(zip(suites, pages, strict=True))


def _gx_checkpoint(
    context: "gx.data_context.FileDataContext", name: str, parts: Sequence[Part], folder: Path
) -> "gx.Checkpoint":
    """The suites as declared today, each bound to its frame, a file in `folder`.

    Frames are files because a gx_checkpoint takes one frame in memory for all of its suites.
    """
    import great_expectations as gx

    pandas_source = context.data_sources.add_or_update_pandas("lakehouse")
    definitions = []
    for part in parts:
        suite, path = part.suite, folder / f"{part.suite.name}.parquet"
        parquet.write_table(part.frame.unify_dictionaries(), path, compression="none")
        asset = pandas_source.add_parquet_asset(suite.name, path=path)
        expectations = [_expectation(check) for check in suite.checks]
        definition = gx.ValidationDefinition(
            name=suite.name,
            data=asset.add_batch_definition("window"),
            suite=context.suites.add_or_update(
                gx.ExpectationSuite(suite.name, expectations=expectations)
            ),
        )
        definitions.append(context.validation_definitions.add_or_update(definition))
    return context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=name,
            validation_definitions=definitions,
            result_format={"result_format": "SUMMARY"},
        )
    )


def _expectation(check: Check) -> Any:
    from great_expectations import expectations

    return getattr(expectations, check.expectation)(
        **check.arguments,
        severity=_GX_SEVERITY[check.severity],
        notes=f"{check.name} ({check.severity} if not met)",
        meta={"check": check.name},
    )
