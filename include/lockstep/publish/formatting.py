"""A switch in words, for people who approve it and who look back at it. Pure."""

from lockstep.ledger.cutovers import Cutover
from lockstep.model.modes import BATCH
from lockstep.publish.switch import PlannedSwitch


def of_planned(planned: PlannedSwitch) -> str:
    """What will be switched, and the reasons for it; a sentence a line."""
    rows = f"The published table has {planned.rows:,} rows and is fed by {planned.from_feed}."
    if planned.verified is None:
        return (
            f"{rows}\n\nEvery hour that the hourly table has becomes what that has; later rows "
            "stay until their hourly run. What changed after an hour's run is not in it."
        )
    since, through = (
        f"{at:%Y-%m-%d %H:%M}Z" for at in (planned.verified.since, planned.verified.through)
    )
    return (
        f"{rows}\n\n{planned.to_feed} is verified against the hourly table from {since} through "
        f"{through} without a gap. Every row that it knows becomes what it has, in one commit; "
        f"rows of before its time stay. `lockstep publish switch {BATCH}` leads back."
    )


def of_cutover(line: Cutover) -> str:
    """A line of the ledger."""
    return (
        f"{line.switched_at:%Y-%m-%d %H:%M:%S}Z {line.from_feed} → {line.to_feed}, version "
        f"{line.published_version}, {line.rows_before:,} → {line.rows_after:,} rows, "
        f"approved by {line.approved_by}"
    )
