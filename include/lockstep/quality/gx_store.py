"""Great Expectations, kept quiet: turns declared checks into a suite, runs it, keeps its results.

The store is a file-based GX project below one folder: gx/ holds suites and results, data_docs/ the
pages. One process at a time uses it. Great Expectations is imported only when a store is opened
(3 s), never with this module. Knows no table; what the pages look like is in data_docs.py.
"""

import fcntl
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.contracts import CheckStatus, Window
from lockstep.errors import QualityStoreError
from lockstep.quality import data_docs
from lockstep.quality.report import CheckResult
from lockstep.quality.suite import Check

if TYPE_CHECKING:
    import great_expectations as gx
    import pandas as pd
    from great_expectations.core import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
        RunIdentifier,
    )

LOCK_DEADLINE_SECONDS = 300
"""A backfill may check many windows at once; each holds the lock for a few seconds."""

_EXAMPLES_SHOWN = 3
_GX_SEVERITY = {CheckStatus.FAIL: "critical", CheckStatus.WARN: "warning"}


@dataclass(frozen=True)
class Suite:
    """Declared checks under one name; `noun` is what a row of its frame is."""

    name: str
    checks: tuple[Check, ...]
    noun: str


@contextmanager
def opened(folder: Path) -> Iterator["GxStore"]:
    """The store below a folder, made if need be, for this process alone.

    Raises QualityStoreError when the folder cannot be written, when what is there cannot be read,
    or when other checks hold it for LOCK_DEADLINE_SECONDS.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise QualityStoreError(
            f"the quality checks cannot write to {folder}: {error.strerror}"
        ) from error
    with lock:
        _acquire(lock, folder)
        yield GxStore(_open_context(folder), folder)


def _acquire(lock: Any, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_DEADLINE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise QualityStoreError(
                    f"other quality checks have held {folder} for {LOCK_DEADLINE_SECONDS} s; "
                    "see which process has its .lock open, then check the window again"
                ) from None
            time.sleep(0.1)


def _open_context(folder: Path) -> "gx.data_context.FileDataContext":
    # It reports its use to its makers and logs hundreds of lines at info, unless told before.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

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

    def record(self, window: Window) -> "Recording":
        """Begin the results of one window, under the window's name and the time of now."""
        from great_expectations.core import RunIdentifier

        name = f"{window.start:%Y-%m-%dT%H:%M:%SZ}_{window.end:%Y-%m-%dT%H:%M:%SZ}"
        return Recording(self, RunIdentifier(run_name=name, run_time=datetime.now(UTC)))


@dataclass(frozen=True)
class Recording:
    """The results of one window's suites, gathered for its pages."""

    store: GxStore
    run_id: "RunIdentifier"
    identifiers: list = field(default_factory=list)

    def validate(
        self, suite: Suite, frame: "pd.DataFrame", facts: dict[str, object]
    ) -> tuple[CheckResult, ...]:
        """Validate a frame and keep the result. The frame's first column names its rows.

        An expectation that could not be evaluated counts as failed, whatever its severity.
        """
        gx_checkpoint = _gx_checkpoint(self.store.context, suite)
        outcome = gx_checkpoint.run(
            batch_parameters={"dataframe": frame}, expectation_parameters=facts, run_id=self.run_id
        )
        ((identifier, validation),) = outcome.run_results.items()
        self.identifiers.append(identifier)
        return tuple(_check_results(suite, validation, frame.iloc[:, 0], facts))

    def build_pages(self) -> list[str]:
        """Build a page for each suite validated; returns their paths below the Data Docs."""
        return data_docs.build_pages(self.store.context, self.identifiers)


def _gx_checkpoint(context: "gx.data_context.FileDataContext", suite: Suite) -> "gx.Checkpoint":
    """The suite as declared today, bound to a frame that is given when it runs."""
    import great_expectations as gx

    pandas_source = context.data_sources.add_or_update_pandas("lakehouse")
    asset = pandas_source.add_dataframe_asset(suite.name)
    frame = asset.add_batch_definition_whole_dataframe("window")
    gx_suite = context.suites.add_or_update(
        gx.ExpectationSuite(suite.name, expectations=[_expectation(c) for c in suite.checks])
    )
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=suite.name, data=frame, suite=gx_suite)
    )
    return context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=suite.name,
            validation_definitions=[definition],
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


def _check_results(
    suite: Suite,
    validation: "ExpectationSuiteValidationResult",
    labels: "pd.Series",
    facts: dict[str, object],
) -> Iterator[CheckResult]:
    results = {result.expectation_config.meta["check"]: result for result in validation.results}
    for check in suite.checks:
        result = results[check.name]
        expected = check.expected.format(**facts)
        if "observed_value" not in result.result and "unexpected_count" not in result.result:
            reason = f"not evaluated: {_exception_message(result.exception_info)}"
            yield CheckResult(check.name, CheckStatus.FAIL, check.severity, reason, expected)
            continue
        status = CheckStatus.PASS if result.success else check.severity
        yield CheckResult(
            check.name,
            status,
            check.severity,
            _observed(result, suite.noun),
            expected,
            () if result.success else _examples(result, labels),
        )


def _exception_message(exception_info: dict) -> str:
    """GX nests one such dictionary for each metric that failed."""
    if "exception_message" in exception_info:
        return str(exception_info["exception_message"])
    return "; ".join(sorted({_exception_message(info) for info in exception_info.values()}))


def _observed(result: "ExpectationValidationResult", noun: str) -> str:
    if "observed_value" in result.result:
        return f"{result.result['observed_value']:,} {noun}"
    unexpected, total = result.result["unexpected_count"], result.result["element_count"]
    if unexpected == 0:
        return f"all {total:,} {noun}"
    if unexpected == total:
        return f"none of {total:,} {noun}"
    return f"all but {unexpected:,} of {total:,} {noun}"


def _examples(result: "ExpectationValidationResult", labels: "pd.Series") -> tuple[str, ...]:
    places = result.result.get("partial_unexpected_index_list") or []
    shown = tuple(_label(label) for label in labels.iloc[places[:_EXAMPLES_SHOWN]])
    return (*shown, "…") if len(places) > _EXAMPLES_SHOWN else shown


def _label(label: object) -> str:
    """One null makes pandas turn a whole column of ids into floats."""
    if isinstance(label, float):
        return "null" if math.isnan(label) else f"{label:.0f}"
    return str(label)
