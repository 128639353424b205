"""docker-compose.yml is right, as far as that can be seen without an engine of containers.

It follows the Compose specification, and every image, command, path, port and variable in it is
one that the project has. tests/compose holds the specification's schema and where it is from.
"""

import copy
import importlib.util
import ipaddress
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import yaml
from lockstep import jars
from lockstep.accounts import KafkaUser, Role
from lockstep.devstack import container, postgres
from lockstep.jars.errors import JarsIncompleteError
from lockstep.settings import Settings, password_setting

from tests.compose.passwords import LOGINS, PASSWORDS
from tests.project import PROJECT_DIR

COMPOSE_FILE = PROJECT_DIR / "docker-compose.yml"
SCHEMA_FILE = PROJECT_DIR / "tests" / "compose" / "compose-spec.json"
DEPLOY = PROJECT_DIR / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
ENV_EXAMPLE = DEPLOY / "env.example"
OUR_IMAGE = "lockstep"

VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:-|:\?)(?P<rest>[^}]*))?\}")


def required_variables(text: str) -> set[str]:
    return {found["name"] for found in VARIABLE.finditer(text) if found["kind"] == ":?"}


def interpolated(value: object, given: dict[str, str]) -> object:
    """The value as Compose reads it: variables replaced in every string. Raises KeyError."""
    if isinstance(value, dict):
        return {name: interpolated(part, given) for name, part in value.items()}
    if isinstance(value, list):
        return [interpolated(part, given) for part in value]
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: _value(found, given), value)
    return value


def _value(found: re.Match[str], given: dict[str, str]) -> str:
    chosen = given.get(found["name"])
    if chosen:
        return chosen
    if found["kind"] == ":-":
        return found["rest"]
    raise KeyError(found["name"])


def schema() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def text_of_compose() -> str:
    return COMPOSE_FILE.read_text(encoding="utf-8")


@cache
def raw_services() -> dict[str, dict]:
    """The services as written, anchors resolved, variables not."""
    return yaml.safe_load(text_of_compose())["services"]


@cache
def project() -> dict:
    """The whole file as Compose sees it with the example's variables filled in."""
    return interpolated(yaml.safe_load(text_of_compose()), dict.fromkeys(PASSWORDS, "given"))


def services() -> dict[str, dict]:
    return project()["services"]


SERVICE_NAMES = sorted(raw_services())


def environment(service: dict) -> dict[str, str]:
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def settings_of(service: dict) -> dict[str, str]:
    return {
        name: value for name, value in environment(service).items() if name.startswith("LOCKSTEP_")
    }


def commands(service: dict) -> Iterator[list[str]]:
    """What a service runs: its command, and the one that asks for its health."""
    if "command" in service:
        yield [*service.get("entrypoint", []), *service["command"]]
    if "healthcheck" in service:
        kind, *command = service["healthcheck"]["test"]
        assert kind == "CMD", "a shell string needs a shell's quoting"
        yield command


# --- the file ---------------------------------------------------------------------------------


def test_the_file_follows_the_compose_specification() -> None:
    schema().validate(project())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file["services"]["kafka"].update(comand=["x"]),
        lambda file: file["services"]["kafka"].update(restart=3),
        lambda file: file["services"]["connect"]["depends_on"]["kafka"].update(condition="up"),
    ],
)
def test_the_schema_refuses_what_compose_would_refuse(spoil) -> None:
    file = copy.deepcopy(project())
    spoil(file)
    assert not schema().is_valid(file)


def test_a_missing_password_stops_compose_before_anything_starts() -> None:
    for missing in PASSWORDS:
        given = dict.fromkeys(PASSWORDS - {missing}, "given")
        with pytest.raises(KeyError, match=missing):
            interpolated(raw_services(), given)


def test_no_password_is_written_down_or_has_a_default() -> None:
    assert required_variables(text_of_compose()) == PASSWORDS
    for name, service in raw_services().items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN|KEY", variable):
                assert re.fullmatch(r"\$\{LOCKSTEP_\w+_PASSWORD:\?[^}]+\}", value), (name, variable)


def test_no_password_is_in_a_command_line() -> None:
    for name, service in raw_services().items():
        for command in commands(service):
            assert not re.search(r"password|secret", " ".join(command), re.IGNORECASE), name


def test_each_service_gets_the_passwords_that_it_needs_and_no_other() -> None:
    given = {
        name: {variable for variable in settings_of(service) if variable in PASSWORDS}
        for name, service in services().items()
    }
    needed = {
        "kafka": set(KafkaUser),
        "connect": {Role.CDC, KafkaUser.ADMIN},
        "prepare": {*Role, KafkaUser.ADMIN},
        "airflow-api-server": {Role.AIRFLOW},
        "airflow-dag-processor": {Role.AIRFLOW},
        "airflow-triggerer": {Role.AIRFLOW},
        # Tasks, the streams' drivers among them: these ask the database for its log's position.
        "airflow-scheduler": {Role.AIRFLOW, Role.BATCH_READER, Role.CDC, KafkaUser.READER},
        "lockstep": {Role.BATCH_READER, Role.CDC, KafkaUser.READER},
    }
    expected = {name: {password_setting(user) for user in needed.get(name, ())} for name in given}
    expected["prepare"] |= LOGINS
    expected["airflow-api-server"].add("LOCKSTEP_AIRFLOW_UI_PASSWORD")
    for name in ("connect", "prepare", "airflow-triggerer", "airflow-scheduler", "lockstep"):
        expected[name].add("LOCKSTEP_CONNECT_PASSWORD")
    assert given == expected


def test_drivers_and_executors_share_the_streams_checkpoints() -> None:
    """Executors keep the state store of mode `transaction` there; no password may come along."""
    mounted = {
        name: {volume.split(":")[1]: volume.split(":")[0] for volume in service.get("volumes", ())}
        for name, service in services().items()
    }
    streams = f"{services()['airflow-scheduler']['environment']['LOCKSTEP_HOME']}/streams"
    assert mounted["airflow-scheduler"][streams] == mounted["spark-worker"][streams] == "streams"
    assert "home" not in mounted["spark-worker"].values()


@pytest.mark.parametrize("file", [COMPOSE_FILE, ENV_EXAMPLE, DOCKERFILE], ids=lambda f: f.name)
def test_every_variable_is_a_setting(file: Path) -> None:
    known = LOGINS | {f"LOCKSTEP_{name.upper()}" for name in Settings.model_fields}
    mentioned = set(re.findall(r"LOCKSTEP_[A-Z_]*[A-Z]", file.read_text(encoding="utf-8")))
    assert mentioned - known == set()


def test_every_default_in_the_file_is_that_of_the_settings() -> None:
    defaults = {
        found["name"]: found["rest"]
        for found in VARIABLE.finditer(text_of_compose())
        if found["kind"] == ":-"
    }
    assert defaults.pop("LOCKSTEP_LAKEHOUSE") == "/lakehouse"  # a volume of its own
    for name, default in defaults.items():
        field = Settings.model_fields[name.removeprefix("LOCKSTEP_").lower()]
        assert default == str(field.default), name


# --- images -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICE_NAMES)
def test_every_image_is_pinned(name: str) -> None:
    image, _, tag = services()[name]["image"].partition(":")
    assert re.match(r"v?\d+\.\d+", tag), f"{image}:{tag}"


def test_our_image_is_this_version_and_is_always_built() -> None:
    version = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["project"]["version"]
    ours = [one for one in services().values() if one["image"].startswith(OUR_IMAGE)]
    others = {name for name, one in services().items() if one not in ours}
    assert others == {"postgres", "prometheus", "grafana"}
    for service in ours:
        assert service["image"] == f"{OUR_IMAGE}:{version}"
        assert service["pull_policy"] == "build"  # no one else's image of that name
        assert (PROJECT_DIR / service["build"]["dockerfile"]) == DOCKERFILE


# --- services ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICE_NAMES)
def test_every_command_exists(name: str) -> None:
    for command in commands(services()[name]):
        program, *arguments = command
        match program:
            case "python" if arguments[:2] == ["-m", container.__name__]:
                assert_container_command(arguments[2:])
            case "python":
                compile(arguments[arguments.index("-c") + 1], name, "exec")
            case "spark-class":
                assert spark_has_class(arguments[0])
            case "lockstep":
                assert OUR_IMAGE in console_scripts()
            case "postgres" | "pg_isready":
                assert services()[name]["image"].startswith("postgres:")
            case "promtool" | "--config.file=/etc/prometheus/prometheus.yml":
                assert services()[name]["image"].startswith("prom/prometheus:")
            case "wget":
                assert services()[name]["image"].startswith("grafana/grafana:")
            case _:
                pytest.fail(f"{name} runs {program}, which nothing here knows")


def assert_container_command(arguments: list[str]) -> None:
    action, *names = arguments
    if action == "prepare":
        assert names == []
    else:
        assert action in ("run", "healthy")
        assert names[0] in container.SERVICES


def console_scripts() -> dict[str, str]:
    return tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["project"]["scripts"]


def spark_has_class(name: str) -> bool:
    """Whether the installed pyspark has a Java class of this name."""
    pyspark = Path(importlib.util.find_spec("pyspark").origin).parent
    (core,) = (pyspark / "jars").glob("spark-core_*.jar")
    return has_class(core, name)


def has_class(jar: Path, name: str) -> bool:
    with zipfile.ZipFile(jar) as archive:
        return f"{name.replace('.', '/')}.class" in archive.namelist()


def test_a_class_that_spark_does_not_have_is_noticed() -> None:
    assert not spark_has_class("org.apache.spark.deploy.master.Mistress")


@pytest.mark.parametrize("name", ["kafka", "connect"])
def test_the_main_class_of_a_jvm_service_is_in_its_locked_jars(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container.kafka, "format_once", lambda *_: None)
    passwords = {field: "a-password" for field in Settings.model_fields if "_password" in field}
    settings = Settings(home=tmp_path, **passwords)
    try:
        jars.classpath(settings, name)
    except JarsIncompleteError:
        pytest.skip("no jars in this folder: `make setup` puts them there")
    command = container._LAUNCHES[name](settings).command
    main = command[command.index("-cp") + 2]
    assert any(has_class(jar, main) for jar in jars.classpath(settings, name))
    assert "a-password" not in " ".join(command)


def test_each_service_runs_what_it_is_named_after_and_asks_that_for_its_health() -> None:
    for name in container.SERVICES:
        run, health = commands(services()[name])
        assert run[-2:] == ["run", name]
        assert health[-2:] == ["healthy", name]


def test_the_whole_embedded_stack_is_there() -> None:
    assert {*container.SERVICES, postgres.Postgres.name} <= set(services())


def test_what_others_wait_for_can_be_waited_for() -> None:
    for name, service in services().items():
        for needed, how in service.get("depends_on", {}).items():
            other = services()[needed]
            if how["condition"] == "service_healthy":
                assert "healthcheck" in other, f"{name} waits for {needed}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert other["restart"] == "no", f"{needed} would never be done"


def test_every_service_that_stays_is_restarted_and_watched() -> None:
    for name, service in services().items():
        once = name == "prepare" or "profiles" in service
        assert service["restart"] == ("no" if once else "unless-stopped"), name
        assert ("healthcheck" in service) != once, name


@pytest.mark.parametrize("name", SERVICE_NAMES)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for published in services()[name].get("ports", ()):
        host, outside, inside = published.split(":")
        assert ipaddress.ip_address(host).is_loopback
        assert 0 < int(outside) < 2**16
        assert int(inside) in listening_on(name)


def listening_on(name: str) -> set[int]:
    """The ports that the service's own settings or command tell it to listen on."""
    service = services()[name]
    command = service.get("command", [])
    ports = {int(value) for option, value in pairwise(command) if "port" in option}
    ports |= {int(one.rpartition(":")[2]) for one in command if "listen-address" in one}
    ports |= {int(value) for name, value in environment(service).items() if "HTTP_PORT" in name}
    if name == "postgres":
        ports.add(int(services()["airflow-scheduler"]["environment"]["LOCKSTEP_POSTGRES_PORT"]))
    field = name.replace("-api-server", "") + "_port"
    default = Settings.model_fields.get(field)
    return ports | ({default.default} if default else set())


def test_no_two_services_publish_one_port() -> None:
    published = [port.split(":")[1] for one in services().values() for port in one.get("ports", ())]
    assert len(published) == len(set(published)) > 0


def test_every_address_is_a_service() -> None:
    for name, service in services().items():
        for variable, value in settings_of(service).items():
            if variable.endswith("_HOST"):
                assert value in services(), f"{name}: {variable}"
        master = settings_of(service).get("LOCKSTEP_SPARK_MASTER")
        if master:
            host, port = master.removeprefix("spark://").split(":")
            assert int(port) in listening_on(host)


def test_the_settings_can_be_loaded_from_each_services_environment() -> None:
    for service in services().values():
        given = settings_of(service)
        fields = {name.removeprefix("LOCKSTEP_").lower(): value for name, value in given.items()}
        Settings(**fields)


def test_every_mounted_file_exists_and_every_volume_is_declared() -> None:
    declared = project()["volumes"]
    for name, service in services().items():
        for mount in service.get("volumes", ()):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert (PROJECT_DIR / source).exists(), f"{name}: {mount}"
                assert mode == ["ro"]
            else:
                assert source in declared, f"{name}: {mount}"
            assert target.startswith("/")


def test_the_image_makes_the_folders_of_its_volumes_for_its_own_user() -> None:
    line = r"install -d -m \d+ -o lockstep -g lockstep (.+?)(?: \\)?$"
    made = set(" ".join(re.findall(line, DOCKERFILE.read_text(), re.MULTILINE)).split())
    for service in services().values():
        if service["image"].startswith(OUR_IMAGE):
            named = [one.split(":")[1] for one in service.get("volumes", ()) if one[0] != "."]
            assert set(named) <= made


def test_airflow_and_the_workers_see_the_lakehouse_at_one_path() -> None:
    for name in ("airflow-scheduler", "spark-worker", "lockstep"):
        mounts = [mount for mount in services()[name]["volumes"] if mount.startswith("lakehouse:")]
        lakehouse = settings_of(services()["airflow-scheduler"])["LOCKSTEP_LAKEHOUSE"]
        assert mounts == [f"lakehouse:{lakehouse}"]


def test_every_service_says_what_it_needs_and_may_take() -> None:
    for name, service in services().items():
        if "profiles" not in service:
            assert "memory" in service["deploy"]["resources"]["limits"], name
