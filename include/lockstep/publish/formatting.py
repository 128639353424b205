"""A switch in words, for people who approve it and who look back at it. Pure."""

from lockstep.ledger.cutovers import Cutover
from lockstep.model.modes import BATCH
from lockstep.publish.switch import Plan


def of_plan(plan: Plan) -> str:
    """What will be switched, and the reasons for it; a sentence a line."""
    orders = f"The published table has {plan.rows:,} orders and is fed by {plan.from_feed}."
    if plan.verified is None:
        return (
            f"{orders}\n\nEvery hour that the hourly table has becomes what that has; later orders "
            "stay until their hourly run. What changed after an hour's run is not in it."
        )
    since, through = (
        f"{at:%Y-%m-%d %H:%M}Z" for at in (plan.verified.since, plan.verified.through)
    )
    return (
        f"{orders}\n\n{plan.to_feed} is verified against the hourly table from {since} through "
        f"{through} without a gap. Every order that it knows becomes what it has, in one commit; "
        f"orders of before its time stay. `lockstep publish switch {BATCH}` leads back."
    )


def of_cutover(line: Cutover) -> str:
    """A line of the ledger."""
    return (
        f"{line.switched_at:%Y-%m-%d %H:%M:%S}Z {line.from_feed} → {line.to_feed}, version "
        f"{line.published_version}, {line.rows_before:,} → {line.rows_after:,} orders, "
        f"approved by {line.approved_by}"
    )
