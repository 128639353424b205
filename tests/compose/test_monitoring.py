"""Prometheus and Grafana ask for what the exporter really serves, in queries that parse.

`streams.rules.test.yml` says which alert fires when; Prometheus' own `promtool` runs it where there
is one (built from v3.5.0, the version of docker-compose.yml, it passed).
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import promql_parser
import pytest
import yaml
from lockstep.model.modes import StreamMode
from lockstep.observe.latency import HOPS
from lockstep.observe.prometheus import QUERIES, TOTAL, StreamCollector
from lockstep.settings import Settings
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, write_desired
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    Latency,
    Percentiles,
    write_heartbeat,
)

from tests.project import PROJECT_DIR

DEPLOY = PROJECT_DIR / "deploy"
RULES_FILE = DEPLOY / "prometheus" / "streams.rules.yml"
RULES_TEST_FILE = Path(__file__).with_name("streams.rules.test.yml")
GRAFANA = DEPLOY / "grafana"
BY_PROMETHEUS = {"ALERTS"}
"""What no exporter serves."""
GRID_COLUMNS = 24
PROMTOOL = shutil.which("promtool")


def read_yaml(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def alerts() -> dict[str, dict]:
    (group,) = read_yaml(RULES_FILE)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard() -> dict:
    return json.loads((GRAFANA / "dashboards" / "streams.json").read_text(encoding="utf-8"))


def compose() -> dict:
    return read_yaml(PROJECT_DIR / "docker-compose.yml")["services"]


def queries() -> Iterator[tuple[str, str]]:
    """Where a query stands, and the query, with the dashboard's variable filled in."""
    yield from ((name, rule["expr"]) for name, rule in alerts().items())
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$mode", ".+")


def selectors(expression: promql_parser.Expr) -> Iterator[promql_parser.VectorSelector]:
    """Every vector that a query selects, however deep it stands."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (inner := getattr(expression, name, None)) is not None:
            yield from selectors(inner)
    for argument in getattr(expression, "args", ()):
        yield from selectors(argument)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Of every metric on the page, while a stream is at work: its labels and their values."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    now = datetime.now(UTC)
    mode = StreamMode.OUTBOX
    write_desired(settings, mode, DesiredState.RUNNING, "a test")
    with lease.acquire(settings, mode):
        beat = Heartbeat(
            mode=mode,
            pid=os.getpid(),
            driver_started_at=now,
            beat_at=now,
            state=DriverState.RUNNING,
            frontier_committed_at=now,
            last_progress_at=now,
            lag_bytes=0,
            lag_seconds=0.0,
            micro_batch_seconds=0.1,
            state_rows=7,
            driver_memory_bytes=2**30,
            latency=Latency(1, 2, 3, dict.fromkeys(HOPS, Percentiles(1, 2, 3))),
        )
        write_heartbeat(settings, beat)
        families = list(StreamCollector(settings).collect())
    found: dict[str, dict[str, set[str]]] = {}
    for family in families:
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


@pytest.mark.parametrize(("place", "query"), [*queries()], ids=[place for place, _ in queries()])
def test_every_query_selects_what_the_exporter_serves(
    place: str, query: str, served: dict[str, dict[str, set[str]]]
) -> None:
    found = list(selectors(promql_parser.parse(query)))
    assert found, place
    for selector in found:
        if selector.name in BY_PROMETHEUS:
            continue
        assert selector.name in served
        for matcher in selector.matchers.matchers:
            values = served[selector.name][matcher.name]
            if matcher.op == promql_parser.MatchOp.Equal:
                assert matcher.value in values


def test_a_metric_or_value_that_is_not_served_is_noticed(
    served: dict[str, dict[str, set[str]]],
) -> None:
    (wrong,) = selectors(promql_parser.parse("rate(lockstep_stream_rows[1m])"))
    assert wrong.name not in served
    assert served["lockstep_stream_latency_seconds"]["hop"] == {TOTAL, *HOPS}
    assert served["lockstep_stream_health"]["health"] == set(Health)
    assert served["lockstep_stream_up"]["mode"] == set(QUERIES)
    with pytest.raises(ValueError, match="brackets"):
        promql_parser.parse("rate(lockstep_stream_rows[1m)")


def test_every_metric_is_on_the_dashboard_or_in_an_alert(
    served: dict[str, dict[str, set[str]]],
) -> None:
    used = {s.name for _, query in queries() for s in selectors(promql_parser.parse(query))}
    # What others say more plainly: rows_total as a rate, the age of the frontier.
    spare = {"rows_per_second", "heartbeat_age_seconds", "progress_age_seconds"}
    assert {name.removeprefix("lockstep_stream_") for name in set(served) - used} == spare


# --- alerts -----------------------------------------------------------------------------------


def test_every_failure_of_a_stream_has_an_alert() -> None:
    wrong = {health for health in Health if health.wrong}
    reported = {
        health
        for rule in alerts().values()
        for health in re.findall(r'health="(\w+)"', rule["expr"])
    }
    assert wrong - reported == {Health.DEAD}  # that is LockstepStreamDown
    assert "LockstepStreamDown" in alerts()


@pytest.mark.parametrize("name", alerts())
def test_every_alert_says_how_bad_it_is_and_what_to_do(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}
    about_one_stream = name != "LockstepMetricsMissing"
    assert ("{{ $labels.mode }}" in rule["annotations"]["summary"]) == about_one_stream


def test_every_alert_has_a_case() -> None:
    cases = read_yaml(RULES_TEST_FILE)["tests"]
    fired = {
        one["alertname"]
        for case in cases
        for one in case["alert_rule_test"]
        if one.get("exp_alerts")
    }
    assert fired == set(alerts())


@pytest.mark.skipif(PROMTOOL is None, reason="Prometheus' promtool is not here")
def test_the_alerts_fire_as_their_cases_say(tmp_path: Path) -> None:
    cases = written_without_texts(tmp_path)
    for arguments in (
        ["check", "rules", str(RULES_FILE)],
        ["check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml")],
        ["test", "rules", str(cases)],
    ):
        done = subprocess.run(
            [PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def written_without_texts(folder: Path) -> Path:
    """The cases beside rules without annotations: promtool would want every text written twice."""
    rules = read_yaml(RULES_FILE)
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]
    cases = {**read_yaml(RULES_TEST_FILE), "rule_files": ["rules.yml"]}
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "cases.yml").write_text(yaml.safe_dump(cases))
    return folder / "cases.yml"


# --- files and services -----------------------------------------------------------------------


def test_prometheus_reads_the_rules_and_the_exporter() -> None:
    configuration = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    mounts = [one.split(":") for one in compose()["prometheus"]["volumes"]]
    inside = {target: source for source, target, *_ in mounts}
    for path in configuration["rule_files"]:
        assert (PROJECT_DIR / inside[path]) == RULES_FILE
    assert (
        f"--config.file={next(p for p in inside if p.endswith('prometheus.yml'))}"
        in (compose()["prometheus"]["command"])
    )
    (job,) = configuration["scrape_configs"]
    (target,) = job["static_configs"]
    assert target["targets"] == [f"metrics:{Settings.model_fields['metrics_port'].default}"]
    assert "metrics" in compose()


def test_grafana_finds_its_data_source_and_dashboard() -> None:
    (source,) = read_yaml(GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert f"--web.listen-address=:{port}" in compose()[host]["command"]
    uids = set(re.findall(r'"type": "prometheus", "uid": "([^"]+)"', json.dumps(dashboard())))
    assert uids == {source["uid"]}
    (provider,) = read_yaml(GRAFANA / "provisioning/dashboards/lockstep.yml")["providers"]
    mounted = {one.split(":")[1]: one.split(":")[0] for one in compose()["grafana"]["volumes"]}
    assert PROJECT_DIR / mounted[provider["options"]["path"]] == GRAFANA / "dashboards"
    home = compose()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (GRAFANA / "dashboards" / Path(home).name).exists()
    assert str(Path(home).parent) == provider["options"]["path"]


def test_no_one_can_sign_in_to_or_change_grafana() -> None:
    given = compose()["grafana"]["environment"]
    assert given["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert given["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert given["GF_AUTH_BASIC_ENABLED"] == "false"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    boxes = [panel["gridPos"] for panel in panels]
    assert all(box["x"] + box["w"] <= GRID_COLUMNS for box in boxes)
    for one, other in combinations(boxes, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


def test_every_health_has_its_name_and_colour_on_the_dashboard() -> None:
    now, history = dashboard()["panels"][:2]
    for panel in (now, history):
        (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
        texts = {code: shown["text"] for code, shown in mapping["options"].items()}
        (target,) = panel["targets"]
        coded = re.findall(r'health="(\w+)"}\) \* (\d)', target["expr"])
        assert {code: health for health, code in coded} == texts
        assert set(texts.values()) == set(Health)
