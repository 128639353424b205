"""Our own classes for Kafka Connect: capture/java."""

from pathlib import Path

from lockstep import jars
from lockstep.jvm import java_classes
from lockstep.settings import Settings

SOURCES = Path(__file__).with_name("java")
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
