"""What Great Expectations found, in our words. Never imports it."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lockstep.model.verdict import CheckStatus
from lockstep.quality.report import CheckResult
from lockstep.quality.suite import Suite

if TYPE_CHECKING:
    from great_expectations.core import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )

_EXAMPLES_SHOWN = 3


def check_results(
    suite: Suite,
    validation: "ExpectationSuiteValidationResult",
    label: Callable[[int], str],
    facts: Mapping[str, object],
) -> Iterator[CheckResult]:
    """The suite's checks in their order, with what was observed.

    label: names the row at a place of the frame. facts: fill the names in `expected`. What could
    not be evaluated has failed, whatever its severity.
    """
    results = {result.expectation_config.meta["check"]: result for result in validation.results}
    for check in suite.checks:
        result = results[check.name]
        expected = check.expected.format(**facts)
        if "observed_value" not in result.result and "unexpected_count" not in result.result:
            reason = f"not evaluated: {_exception_message(result.exception_info)}"
            yield CheckResult(
                check.name, CheckStatus.FAIL, check.severity, reason, expected, suite=suite.name
            )
            continue
        status = CheckStatus.PASS if result.success else check.severity
        yield CheckResult(
            check.name,
            status,
            check.severity,
            _observed(result, suite.noun),
            expected,
            () if result.success else _examples(result, label),
            suite.name,
        )


def _exception_message(exception_info: dict) -> str:
    """GX nests one such dictionary for each metric that failed."""
    if "exception_message" in exception_info:
        return str(exception_info["exception_message"])
    return "; ".join(sorted({_exception_message(info) for info in exception_info.values()}))


def _observed(result: "ExpectationValidationResult", noun: str) -> str:
    if "observed_value" in result.result:
        value = result.result["observed_value"]
        return ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,} {noun}"
    unexpected, total = result.result["unexpected_count"], result.result["element_count"]
    if unexpected == 0:
        return f"all {total:,} {noun}"
    if unexpected == total:
        return f"none of {total:,} {noun}"
    return f"all but {unexpected:,} of {total:,} {noun}"


def _examples(
    result: "ExpectationValidationResult", label: Callable[[int], str]
) -> tuple[str, ...]:
    places = result.result.get("partial_unexpected_index_list") or []
    shown = tuple(label(place) for place in places[:_EXAMPLES_SHOWN])
    return (*shown, "…") if len(places) > _EXAMPLES_SHOWN else shown
