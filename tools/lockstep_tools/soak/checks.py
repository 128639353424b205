"""All checks of the streams' change logs at one moment, for tests and the soak alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings

from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.change_logs import folder_of
from lockstep_tools.soak.equality import check_equal, check_positions
from lockstep_tools.soak.findings import Finding
from lockstep_tools.soak.published import check_published
from lockstep_tools.soak.versions import VersionFollower, check_versions

CAUGHT_UP_SECONDS_MAX = 180.0


@dataclass
class Checks:
    """The checks of some modes, with a follower of each table's versions; call it again and again.

    total: how many pizzas the watched orders hold in every version; None for no such orders.
    """

    settings: Settings
    followers: Mapping[StreamMode, VersionFollower]
    total: int | None = None
    _of_versions_before: list[Finding] = field(default_factory=list)

    @classmethod
    def of(cls, settings: Settings, modes: Iterable[StreamMode]) -> "Checks":
        nothing: frozenset[int] = frozenset()
        followers = {mode: VersionFollower(folder_of(settings, mode), nothing) for mode in modes}
        return cls(settings, followers)

    def watch(self, orders: Iterable[int], total: int) -> None:
        """These new orders hold so many pizzas, all together, in every version from now on.

        Called before the versions that know them have been checked.
        """
        self.total = total
        for follower in self.followers.values():
            follower.watch(frozenset(orders))

    def follow(self) -> None:
        """Judge the versions since the last look, while others write; `run` reports what it finds.

        A stream forgets all but its newest versions (stream_versions_max), so this must come by
        every minute or so.
        """
        for mode in self.followers:
            self._of_versions_before += self._of_versions(mode)

    def run(self, *, every_version: bool = True) -> list[Finding]:
        """Wait until every mode has caught up, then judge all; nothing else writes meanwhile.

        every_version: else the newest alone. To follow the versions reads every row as often as it
        was written or compacted since the last call.
        """
        wait_until_caught_up(self.settings, self.followers, CAUGHT_UP_SECONDS_MAX)
        findings = [finding for mode in self.followers for finding in self._of(mode)]
        if every_version:
            self.follow()
        findings += self._of_versions_before
        self._of_versions_before = []
        if StreamMode.OUTBOX in self.followers:
            findings += check_published(self.settings)
        return findings

    def _of(self, mode: StreamMode) -> list[Finding]:
        """While others write, too."""
        findings = check_positions(self.settings, mode)
        if mode is not StreamMode.OUTBOX and StreamMode.OUTBOX in self.followers:
            findings += check_equal(self.settings, mode)
        return findings

    def _of_versions(self, mode: StreamMode) -> list[Finding]:
        # The look-up reads names and prices of now, and pizzas too: it may show half a change.
        total = None if mode is StreamMode.LOOKUP else self.total
        return check_versions(self.followers[mode], mode, total)
