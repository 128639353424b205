"""The tasks around a person's approval of a cutover: what is asked for, and what is then done."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.errors import LockstepError
from lockstep.settings import Settings


def question(pipeline: str, feed: str, windows: int) -> str:
    """What a person decides about, as Markdown. Fails, without retries, when it is refused."""
    from lockstep.pipeline.plan import plan_named
    from lockstep.publish import formatting, switch

    settings = Settings.load_for(pipeline)
    try:
        plan = plan_named(settings.project, settings.names.pipeline)
        planned = switch.plan_switch(settings, plan, feed, windows, datetime.now(UTC))
    except LockstepError as error:
        raise AirflowFailException(str(error)) from None
    return formatting.of_planned(planned)


def switch_feed(pipeline: str, feed: str, windows: int, approval: Mapping[str, Any]) -> str:
    """Switch after the approval, on the same conditions; gives the ledger's line in words.

    Fails when it is refused by now. A retry helps where the last hour is being compared just now.
    """
    from lockstep.pipeline.plan import plan_named
    from lockstep.publish import formatting, switch

    settings, user = Settings.load_for(pipeline), approval["responded_by_user"]
    try:
        plan = plan_named(settings.project, settings.names.pipeline)
        line = switch.switch(
            settings, plan, feed, windows, f"{user['name']} in Airflow", datetime.now(UTC)
        )
    except LockstepError as error:
        raise AirflowException(str(error)) from None
    return formatting.of_cutover(line)
