"""What the published table's writers refuse."""

from lockstep.errors import LockstepError

_FEED_AGAIN = (
    "Let the batch feed the table (`lockstep publish switch batch`), start the publisher again, "
    "run the hours of the gap again (`lockstep batch run`), and switch back to {feed} when it is "
    "verified"
)


class CutoverRefusedError(LockstepError):
    """The published table is not switched to this feed, and nothing was changed."""

    def __init__(self, feed: str, why: str) -> None:
        super().__init__(
            f"the published table is not switched to {feed}, and nothing was changed: {why}"
        )
        self.feed, self.why = feed, why


class FeedReplacedError(LockstepError):
    """The change log that feeds the published table does not go on where that table ends."""

    restart_helps = False

    def __init__(self, feed: str, published: int, frontier: int, why: str) -> None:
        super().__init__(
            f"{feed} is published up to LSN {published}, and its change log, at LSN {frontier}, "
            f"does not continue that: {why}. Changes between may be missing in it for good, and "
            f"nothing was published. {_FEED_AGAIN.format(feed=feed)}"
        )
        self.feed, self.published, self.frontier, self.why = feed, published, frontier, why


class FeedBehindError(LockstepError):
    """The change log that feeds the published table has not reached what is published already."""

    def __init__(self, feed: str, published: int, frontier: int | None) -> None:
        super().__init__(
            f"{feed} is published up to LSN {published}, and its change log has reached "
            f"{'nothing' if frontier is None else f'LSN {frontier}'} only. Wait if it is being "
            f"filled again from the change topic (`lockstep stream status {feed}`). Otherwise: "
            f"{_FEED_AGAIN.format(feed=feed)}"
        )
        self.feed, self.published, self.frontier = feed, published, frontier
