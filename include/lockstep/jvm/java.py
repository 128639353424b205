"""How the stack's JVMs are started: the command, the logging configuration, properties files.

What runs in them is the business of kafka.py and connect.py.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from lockstep import jars
from lockstep.errors import ServiceError
from lockstep.host.files import write_private
from lockstep.host.process import run_to_end
from lockstep.settings import Settings

VERSIONS = (17, 21)
"""Of Java, that Spark 4.2 runs on."""
_VERSION_SECONDS_MAX = 30
LOGINS_FILE = "jaas.conf"
"""Next to a JVM's other configuration: who signs in to it, and as whom it signs in elsewhere."""
LOGGING_FILE = "log4j2.properties"
LOGGING = """\
# Written by `lockstep up`: everything to standard output, which is the service's log file.
rootLogger.level = WARN
logger.debezium.name = io.debezium
logger.debezium.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS}{UTC} %-5p [%t] %c{1}: %m%n
"""


def java_command(
    settings: Settings,
    configuration: str,
    main: str,
    *arguments: str,
    heap_mb: int = 256,
    classes: Path | None = None,
) -> list[str]:
    """A JVM with the jars of one configuration of jars/ivy.xml, and a folder of classes.

    It ends when its memory is used up, so that a half-dead one is never taken for a running one.
    Raises JarsIncompleteError, and ServiceError when there is no Java.
    """
    logging = settings.home / configuration / LOGGING_FILE
    login_file = settings.home / configuration / LOGINS_FILE
    own = [] if classes is None else [classes]
    classpath = os.pathsep.join(map(str, (*own, *jars.classpath(settings, configuration))))
    return [
        java(),
        f"-Xms{heap_mb // 4}m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",  # 350 MB less for Connect than with G1, which fills its whole heap
        "-XX:+ExitOnOutOfMemoryError",
        *settings.kafka_jvm_options.split(),
        "-Djava.awt.headless=true",
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        f"-Djava.security.auth.login.config={login_file}",
        "-cp",
        classpath,
        main,
        *arguments,
    ]


def write_jvm_files(folder: Path, logins: Mapping[str, str]) -> None:
    """The files that `java_command` names: what is logged, and who signs in (JAAS).

    logins: a login module (kafka_login.py) by the name that Java asks for.
    """
    sections = "".join(f"{name} {{\n    {module}\n}};\n" for name, module in logins.items())
    write_private(folder / LOGINS_FILE, sections)
    write_private(folder / LOGGING_FILE, LOGGING)


def java() -> str:
    """The Java of JAVA_HOME, else of the PATH. Raises ServiceError when there is none."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        where = f"JAVA_HOME is {home}" if home else "java is not on the PATH"
        raise ServiceError(f"there is no Java ({where}): install Java 17 or 21")
    return program


def java_says() -> str:
    """What `java -version` prints. Raises ServiceError when there is none, or it does not run."""
    asked = run_to_end([java(), "-version"], "asking Java for its version", _VERSION_SECONDS_MAX)
    if asked.returncode:
        raise ServiceError(f"{java()} does not run: {asked.stderr.strip() or 'it says nothing'}")
    return asked.stderr


def java_version() -> int:
    """The feature number of that Java, such as 17. Raises ServiceError as java_says does."""
    found = re.search(r'version "(\d+)', said := java_says())
    if found is None:
        raise ServiceError(f"{java()} does not say its version: {said.strip()}")
    return int(found[1])


def java_environment() -> dict[str, str]:
    """Only what a JVM needs of ours: no password of a role that it does not use."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "JAVA_HOME")
    return {name: os.environ[name] for name in kept if name in os.environ}


def properties(values: Mapping[str, object]) -> str:
    """The text of a .properties file; backslashes and what is not ASCII are escaped."""
    return "".join(f"{name}={_escape(str(value))}\n" for name, value in values.items())


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    escaped = "".join(c if c.isascii() else _utf16_escapes(c) for c in escaped)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _utf16_escapes(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
