"""Our own classes for Kafka Connect: include/connectors/java."""

from pathlib import Path

from lockstep import jars
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.stack import java_classes

SOURCES = PROJECT_DIR / "include" / "connectors" / "java"
CONNECTORS = Path("META-INF") / "services" / "org.apache.kafka.connect.source.SourceConnector"
"""How Connect finds a connector on its class path: one class name a line."""


def compiled(settings: Settings) -> Path:
    """The folder for the class path. Raises ServiceError with the compiler's words."""
    classpath = jars.classpath(settings, "connect")
    return java_classes.compiled(SOURCES, classpath, settings.home / "connect", _declare)


def _declare(folder: Path) -> None:
    connectors = sorted(SOURCES.rglob("*Connector.java"))
    names = (".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in connectors)
    (folder / CONNECTORS.parent).mkdir(parents=True)
    (folder / CONNECTORS).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
