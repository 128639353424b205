"""Every setting of the platform: one frozen object, read once in each main.

Values come from the environment (``LOCKSTEP_…``); passwords also from ``secrets.env`` below the
home, which `lockstep up` writes for its owner alone. Nothing else is configured anywhere else.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, DotEnvSettingsSource, SettingsConfigDict

from lockstep.accounts import CONNECT_USER, KafkaUser, Role
from lockstep.errors import ConfigurationError
from lockstep.project import project_dir

if TYPE_CHECKING:
    from lockstep.pipeline.pipeline_names import PipelineNames

SECRETS_FILE = "secrets.env"


class Password(NamedTuple):
    """A role's password. setting: the variable that says what it is, or where it is."""

    setting: str
    password: str


class Settings(BaseSettings):
    """Addresses, folders, sizes and passwords. Defaults are the embedded stack's, on loopback."""

    model_config = SettingsConfigDict(
        env_prefix="LOCKSTEP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    project: Path = Field(default_factory=project_dir)
    """The team's SQL, DAGs, jobs and plugins; by default as project.py finds it."""
    home: Path = Field(default_factory=lambda values: values["project"] / ".lockstep")
    jars_dir: Path = Field(default_factory=lambda values: values["project"] / ".jars")
    pipeline: str = ""
    """The pipeline that is worked for; default: the project's choice (pyproject.toml), or its only
    one."""
    lakehouse: str = ""
    """Folder or URI (s3a://bucket/path) of the Delta tables; default: HOME/lakehouse."""

    postgres_host: str = "127.0.0.1"
    postgres_port: int = 15432
    kafka_host: str = "127.0.0.1"
    kafka_port: int = 19092
    kafka_controller_port: int = 19093
    connect_host: str = "127.0.0.1"
    connect_port: int = 18083
    airflow_host: str = "127.0.0.1"
    airflow_port: int = 18080
    kafka_jvm_options: str = ""
    """More options for the JVMs of Kafka and Connect, separated by spaces. A stack that lives for
    minutes is up in two thirds of the time with -XX:TieredStopAtLevel=1; one that lives for long
    takes two fifths more of the processor with it."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 19464
    """Of the streams' metrics for Prometheus; 0 leaves them out."""

    spark_master: str = "local[2]"
    spark_driver_memory: str = "1g"
    batch_slice_rows: int = Field(default=250_000, gt=0)
    """Orders one JDBC partition reads at the most; each plans its own joins: few large ones."""
    stream_versions_kept_hours: int = Field(default=1, ge=1)
    stream_versions_max: int = Field(default=2_000, ge=100)
    """Older versions of the streams' tables cannot be travelled to, and of a local table not more
    than so many: up to 30 a second are written, and each reader lists those that are there."""
    stream_reading: Literal["reader", "micro_batches"] = "reader"
    """How streams read the change topic: once for all of a driver, or by a query of Spark for each
    (mode transaction has one in any case)."""
    cutover_windows: int = Field(default=24, ge=1)
    """So many windows up to now a stream must agree with the batch before it feeds consumers."""
    airflow_kept_days: int = Field(default=30, ge=2)
    """Older task logs and runs of Airflow go: as long as it is known which run wrote a window. At
    least two, for a repair waits a day for its approval."""
    min_free_bytes: int = Field(default=200 * 1024**2, ge=0)
    """Free room below which a run refuses to start writing to a local lakehouse."""
    wal_keep_bytes: int = Field(default=4 * 1024**3, gt=0)
    """WAL kept for the replication slot at the most (max_slot_wal_keep_size)."""

    admin_password: SecretStr | None = None
    batch_reader_password: SecretStr | None = None
    cdc_password: SecretStr | None = None
    airflow_password: SecretStr | None = None
    airflow_ui_password: SecretStr | None = None
    """Of the user `admin` on Airflow's sign-in page."""
    kafka_password: SecretStr | None = None
    kafka_reader_password: SecretStr | None = None
    """Of the users in accounts.py: who may do everything, and who may read the change topic."""
    connect_password: SecretStr | None = None
    """Of Kafka Connect's REST interface."""

    @model_validator(mode="before")
    @classmethod
    def _absolute_folders(cls, values: dict) -> dict:
        for name in ("project", "home", "jars_dir"):
            if values.get(name):
                values[name] = Path(values[name]).expanduser().absolute()
        lakehouse = str(values.get("lakehouse") or "")
        lakehouse = lakehouse.removeprefix("file://").removeprefix("file:")
        if lakehouse and "://" not in lakehouse:
            lakehouse = str(Path(lakehouse).expanduser().absolute())
        return {**values, "lakehouse": lakehouse}

    @classmethod
    def load(cls) -> Self:
        """Read the environment and the home's secrets.

        Raises ConfigurationError naming each bad value.
        """
        home = Path(os.environ.get("LOCKSTEP_HOME") or project_dir() / ".lockstep")
        try:
            return cls(_env_file=home.expanduser().absolute() / SECRETS_FILE)
        except ValidationError as error:
            problems = "; ".join(
                f"LOCKSTEP_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}"
                for e in error.errors()
            )
            raise ConfigurationError(f"settings cannot be used: {problems}") from None

    def of(self, pipeline: str) -> Self:
        """The settings for the work of this pipeline of the project."""
        return self if pipeline == self._chosen else self.model_copy(update={"pipeline": pipeline})

    def command(self, words: str) -> str:
        """`lockstep WORDS` as a person calls it for the pipeline that is worked for."""
        chosen = f"--pipeline {self.pipeline} " if self.pipeline else ""
        return f"`lockstep {chosen}{words}`"

    @classmethod
    def load_for(cls, pipeline: str) -> Self:
        """Read them for a pipeline; empty: the one that is worked for. Raises as `load` does."""
        settings = cls.load()
        return settings.of(pipeline) if pipeline else settings

    @property
    def secrets_path(self) -> Path:
        return self.home / SECRETS_FILE

    @property
    def lakehouse_uri(self) -> str:
        return self.lakehouse or str(self.home / "lakehouse")

    def table_uri(self, table: str) -> str:
        """Where a table of the lakehouse lives, for Spark and delta-rs alike."""
        return f"{self.lakehouse_uri.rstrip('/')}/{table}"

    @property
    def kafka_bootstrap(self) -> str:
        return f"{self.kafka_host}:{self.kafka_port}"

    @property
    def connect_url(self) -> str:
        return f"http://{self.connect_host}:{self.connect_port}"

    @property
    def airflow_url(self) -> str:
        return f"http://{self.airflow_host}:{self.airflow_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://{self.metrics_host}:{self.metrics_port}/metrics"

    def password(self, user: Role | KafkaUser) -> str:
        """The password of one of the library's database roles, or of a user of Kafka.

        Raises ConfigurationError when there is none.
        """
        of = "the database role" if isinstance(user, Role) else "Kafka's user"
        return self._secret(PASSWORD_FIELDS[user], f"{of} {user}")

    def role_password(self, role: str) -> Password:
        """The password of a role of the stack's database: the library's, or a login of the source
        that is worked for.

        Raises ConfigurationError when there is none, and PipelineError as `names` does.
        """
        if role in set(Role):
            return Password(password_setting(Role(role)), self.password(Role(role)))
        return self.source_password(self.names.source, role)

    def source_password(self, source: str, role: str) -> Password:
        """The password of a source's role: `read` or `capture`, or one of its `logins`.

        Read at each call. Raises ConfigurationError when there is none, or its file cannot be read.
        """
        if found := self.find_source_password(source, role):
            return found
        name = source_password_setting(source, role)
        elsewhere = (
            "; what Airflow starts may have it in Airflow's connection "
            f"{source_connection(source, role)}"
            if role in SOURCE_ROLES
            else ", or run `lockstep up`, which makes it"
        )
        raise ConfigurationError(
            f"no password for the role `{role}` of source {source}: set {name} in the "
            f"environment, or {name}{IN_FILE} to the path of a file that holds it, or write either "
            f"to {self.secrets_path}{elsewhere}"
        )

    def find_source_password(self, source: str, role: str) -> Password | None:
        """The same; None when there is none. Raises when its file cannot be read."""
        name = source_password_setting(source, role)
        secrets = DotEnvSettingsSource(Settings, self.secrets_path, case_sensitive=True).env_vars
        for values in (os.environ, secrets):
            if password := values.get(name):
                return Password(name, password)
            if file := values.get(in_file := f"{name}{IN_FILE}"):
                return Password(in_file, _password_in(Path(file), in_file))
        return None

    @property
    def connect_auth(self) -> tuple[str, str]:
        """User and password of Connect's REST interface; raises ConfigurationError."""
        return CONNECT_USER, self._secret("connect_password", "Kafka Connect")

    def _secret(self, field: str, whose: str) -> str:
        secret: SecretStr | None = getattr(self, field)
        if secret is None:
            raise ConfigurationError(
                f"no password for {whose}: run `lockstep up` (it writes "
                f"{self.secrets_path}) or set LOCKSTEP_{field.upper()}"
            )
        return secret.get_secret_value()

    @property
    def _chosen(self) -> str | None:
        """The pipeline that is worked for; None where none is chosen."""
        from lockstep.pipeline.errors import PipelineError

        try:
            return self.names.pipeline
        except PipelineError:
            return None

    @property
    def names(self) -> "PipelineNames":
        """All that is named after the pipeline and its source.

        Raises PipelineError when there is no such pipeline, or none is chosen of several.
        """
        return _names_of(self.project, self.pipeline)

    def connection(self, role: str, database: str = "") -> dict[str, object]:
        """Keyword arguments for psycopg.connect; never printed, for they hold the password.

        database: by default the one of the pipeline's source. Raises as `role_password` does.
        """
        return {
            "host": self.postgres_host,
            "port": self.postgres_port,
            "dbname": database or self.names.database,
            "user": str(role),
            "password": self.role_password(role).password,
            "connect_timeout": 5,
        }


@lru_cache
def _names_of(project: Path, pipeline: str) -> "PipelineNames":
    """Read once: a process works for one pipeline, whose names do not change meanwhile."""
    from lockstep.pipeline.pipeline_names import names_of

    return names_of(project, pipeline)


def _password_in(file: Path, setting: str) -> str:
    """The file's text without the end of its line."""
    if not file.is_absolute():
        raise ConfigurationError(f"{setting} is {file}, which is no absolute path: write it whole")
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{setting} is {file}, which cannot be read as text: {error}"
        ) from None
    if not password:
        raise ConfigurationError(f"{setting} is {file}, which is empty: write the password to it")
    return password


def holds_password(name: str) -> bool:
    """Whether a variable of this name holds a password, or the path of a file with one."""
    return name.removesuffix(IN_FILE).endswith("_PASSWORD")


def password_setting(user: Role | KafkaUser) -> str:
    """The variable of a password of the library's, in the environment and in secrets.env."""
    return f"LOCKSTEP_{PASSWORD_FIELDS[user].upper()}"


def source_password_setting(source: str, role: str) -> str:
    """The same of a source's role: `read` or `capture`, or one of its `logins`.

    Two underscores are before a login, and no source's name has two in a row or one at its end: so
    no two of them share a variable.
    """
    separator = "_" if role in SOURCE_ROLES else "__"
    return f"LOCKSTEP_SOURCE_{source.upper()}{separator}{role.upper()}_PASSWORD"


def source_connection(source: str, role: str) -> str:
    """The connection in Airflow that may have the same password."""
    return f"lockstep_{source}_{role}"


SOURCE_ROLES = ("read", "capture")
"""What source.toml calls the roles that Lockstep signs in as."""
IN_FILE = "_FILE"
"""After the name of a source's password: the path of a file that holds it, as Docker's and
Kubernetes' secrets are."""
PASSWORD_FIELDS = {
    Role.ADMIN: "admin_password",
    Role.BATCH_READER: "batch_reader_password",
    Role.CDC: "cdc_password",
    Role.AIRFLOW: "airflow_password",
    KafkaUser.ADMIN: "kafka_password",
    KafkaUser.READER: "kafka_reader_password",
}
"""The setting that holds the password of each user of the library's."""
