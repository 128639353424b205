"""A pipeline's version: what makes another one of it, and that two are never mixed."""

from dataclasses import replace
from pathlib import Path

import pytest
from lockstep.pipeline.catalog import Catalog, Column
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sources.side_snapshots import SideSnapshots
from lockstep.streams.modes import Modes
from lockstep.streams.sink import Sink
from lockstep.streams.versions import SharedVersions
from pizzeria import names as pizzeria

from tests.plant.planned import FACT, NAMES, SENSOR, SITE, planned
from tests.plant.project import MANIFEST, QUERY
from tests.project import PROJECT_DIR


def version(folder: Path, **texts: str) -> str:
    return planned(folder, **texts).version


def test_what_decides_no_value_makes_no_other_version(tmp_path: Path) -> None:
    spaced = QUERY.template.replace("SELECT", "/* all */ SELECT\n -- of them\n  ")
    tolerant = MANIFEST.template.replace('["dimension_drift"]', "[]")
    versions = {
        version(tmp_path, query=QUERY.template),
        version(tmp_path, query=spaced),
        version(tmp_path, query=QUERY.template, manifest=tolerant),
    }
    assert len(versions) == 1


def test_query_time_and_types_make_another_version(tmp_path: Path) -> None:
    wider = (*FACT.columns[:2], Column(NAMES.value, "numeric(14,3)"), *FACT.columns[3:])
    untimed = MANIFEST.template.replace('time = "$measured_at"', "")
    versions = [
        version(tmp_path, query=QUERY.template, manifest=MANIFEST.template),
        version(tmp_path, query=QUERY.template.replace("18, 6", "19, 6")),
        version(tmp_path, query=QUERY.template, manifest=untimed),
        planned(
            tmp_path, replace(FACT, columns=wider), SENSOR, SITE,
            query=QUERY.template, manifest=MANIFEST.template,
        ).version,
    ]  # fmt: skip
    assert len(set(versions)) == len(versions)


def test_a_change_log_of_another_version_is_refused(tmp_path: Path) -> None:
    settings, mode = Settings(home=tmp_path / "home", project=tmp_path), Mode.MESSAGE

    def stream_of(plan: Plan) -> Sink:
        modes = Modes(
            settings,
            plan,
            Catalog("none", ()),
            {},
            SideSnapshots("none"),
            pytest.fail,
            tuple,
            SharedVersions(),
        )
        return modes.sink_of(None, mode, 7)

    before = NAMES.locked(planned(tmp_path, query=QUERY.template))
    stream_of(before)
    stream_of(before)
    now = NAMES.locked(planned(tmp_path, query=QUERY.template.replace("18, 6", "19, 6")))
    with pytest.raises(PipelineError, match=f"of version {before.version} of pipeline") as refused:
        stream_of(now)
    assert f"{now.version}: its query" in str(refused.value)
    assert str(refused.value).endswith("`lockstep stream rebuild message` makes the table again")


def test_rows_without_a_version_are_of_the_pizzerias_query_as_it_is() -> None:
    """An edited query makes another version: then this one stays that of the rows of before."""
    assert plan_named(PROJECT_DIR, pizzeria.MANIFEST).version == VERSION_OF_BEFORE
