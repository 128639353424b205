"""Drifts that are planted into a history of the plant: each of a reading with rows of its own.

Each is planted by one transaction, among others that touch the same rows and explain nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from tests.plant.history import NOON, Transaction, Works


@dataclass
class Drift:
    """A reading, and what is to be found of it: by which transaction each column drifts.

    seen: transactions that the cut is to see; hidden: those that it is not to see.
    """

    works: Works
    number: int
    seen: list[Transaction] = field(default_factory=list)
    hidden: list[Transaction] = field(default_factory=list)
    causes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reading, self.sensor = self.works.uuid(), self.works.uuid()
        self.site, self.other_site = 100 + 2 * self.number, 101 + 2 * self.number
        self.code, self.other_code = f"own {self.site}", f"own {self.other_site}"

    def begin(self, *, with_site: bool = True, with_reading: bool = True) -> None:
        """Another site first, then the reading with what it refers to."""
        other = {"code": self.other_code, "city": self.works.text()}
        self.commit(("site", self.other_site), other)
        sensor = {"serial": 1, "name": "first", "factor": Decimal("1.5"), "site_code": self.code}
        rows = {("sensor", self.sensor): sensor}
        if with_site:
            rows["site", self.site] = {"code": self.code, "city": "first city"}
        self.seen.append(self.works.commit(rows))
        if with_reading:
            self.read()

    def read(self) -> None:
        """The reading itself."""
        taken_at = NOON + timedelta(minutes=self.number)
        reading = {"sensor_id": self.sensor, "value": Decimal("2.5"), "taken_at": taken_at}
        self.commit(("fact", self.reading), reading)

    def commit(self, key: tuple[str, str | int], row: dict | None) -> int:
        """A transaction that the cut sees; its id."""
        self.seen.append(self.works.commit({key: row}))
        return self.seen[-1].tx_id

    def update(self, key: tuple[str, str | int], **values: object) -> int:
        """The same, of a row that is there."""
        return self.commit(key, {**self.works.rows[key], **values})

    def end(self) -> None:
        """What explains nothing: a column that is not read, and changes that the cut misses."""
        for key, values in (
            (("sensor", self.sensor), {"serial": 2}),
            (("site", self.site), {}),
        ):
            if row := self.works.rows.get(key):
                self.update(key, **values)
                hidden = {**row, "city": "never", "name": "never"}
                self.hidden.append(self.works.commit({key: {n: hidden[n] for n in row}}))


def renamed(drift: Drift) -> None:
    drift.begin()
    drift.causes["sensor_name"] = drift.update(("sensor", drift.sensor), name="second")


def renamed_twice(drift: Drift) -> None:
    drift.begin()
    drift.update(("sensor", drift.sensor), name="second")
    drift.causes["sensor_name"] = drift.update(("sensor", drift.sensor), name="third")


def renamed_and_back(drift: Drift) -> None:
    drift.begin()
    drift.update(("sensor", drift.sensor), name="second")
    drift.update(("sensor", drift.sensor), name="first")
    drift.causes["amount"] = drift.update(("sensor", drift.sensor), factor=Decimal("0.5"))


def renamed_before_the_reading(drift: Drift) -> None:
    drift.begin(with_reading=False)
    drift.update(("sensor", drift.sensor), name="second", factor=Decimal("3.5"))
    drift.read()
    drift.causes["amount"] = drift.update(("sensor", drift.sensor), factor=Decimal("0.5"))


def moved(drift: Drift) -> None:
    drift.begin()
    drift.causes["city"] = drift.update(("sensor", drift.sensor), site_code=drift.other_code)


def moved_while_cities_change(drift: Drift) -> None:
    drift.begin()
    drift.update(("site", drift.site), city="second city")
    drift.causes["city"] = drift.update(("sensor", drift.sensor), site_code=drift.other_code)
    drift.update(("site", drift.other_site), city="third city")


def city_renamed(drift: Drift) -> None:
    drift.begin()
    drift.causes["city"] = drift.update(("site", drift.site), city="second city")


def code_changed(drift: Drift) -> None:
    drift.begin()
    drift.causes["city"] = drift.update(("site", drift.site), code=f"{drift.code} then")


def sensor_deleted(drift: Drift) -> None:
    drift.begin()
    tx_id = drift.commit(("sensor", drift.sensor), None)
    drift.causes = dict.fromkeys(("sensor_name", "city", "amount"), tx_id)


def site_deleted(drift: Drift) -> None:
    drift.begin()
    drift.causes["city"] = drift.commit(("site", drift.site), None)


def site_inserted(drift: Drift) -> None:
    drift.begin(with_site=False)
    row = {"code": drift.code, "city": "first city"}
    drift.causes["city"] = drift.commit(("site", drift.site), row)


def missed_by_the_cut(drift: Drift) -> None:
    """Committed before the reading, and not seen by the cut, which sees the reading."""
    drift.begin(with_reading=False)
    key = "sensor", drift.sensor
    drift.hidden.append(drift.works.commit({key: {**drift.works.rows[key], "name": "second"}}))
    drift.causes["sensor_name"] = drift.hidden[-1].tx_id
    drift.read()


ALL: tuple[Callable[[Drift], None], ...] = (
    renamed,
    renamed_twice,
    renamed_and_back,
    renamed_before_the_reading,
    moved,
    moved_while_cities_change,
    city_renamed,
    code_changed,
    sensor_deleted,
    site_deleted,
    site_inserted,
    missed_by_the_cut,
)


def plant_drifts(works: Works) -> list[Drift]:
    """One of each kind, with other work between."""
    drifts = []
    for number, plant in enumerate(ALL):
        drift = Drift(works, number)
        plant(drift)
        if plant is not missed_by_the_cut:
            drift.end()
        works.work(5)
        drifts.append(drift)
    return drifts
