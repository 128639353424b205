"""How clients sign in to Kafka: by name and password (SASL PLAIN).

Nothing here connects. What these functions return holds a password and is never printed.
"""

from collections.abc import Mapping

from lockstep.accounts import KafkaUser
from lockstep.settings import Settings

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROTOCOL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
"""Without TLS: where others can listen in, the network is theirs to close."""


def client(settings: Settings, user: KafkaUser) -> dict[str, str]:
    """Where Kafka is and how to sign in, in librdkafka's names. Raises ConfigurationError."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        **PROTOCOL,
        "sasl.username": str(user),
        "sasl.password": settings.password(user),
    }


def java_client(settings: Settings, user: KafkaUser) -> dict[str, str]:
    """As `client`, for Kafka's own client in a JVM."""
    login = {"username": user, "password": settings.password(user)}
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        **PROTOCOL,
        "sasl.jaas.config": login_module(PLAIN_LOGIN, login),
    }


def login_module(name: str, options: Mapping[str, str]) -> str:
    """A login module of Java's in the syntax of its JAAS files, quoted."""
    return f"{name} required {' '.join(f'{key}={_quoted(options[key])}' for key in options)};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
