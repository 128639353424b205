"""Who may read a change topic in Kafka: the streams' reader, in the groups that it names."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lockstep.accounts import KafkaUser
from lockstep.errors import ServiceError
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.waiting import wait_until

RIGHTS_SECONDS_MAX = 30.0
RIGHTS_PAUSE_SECONDS = 0.05
READER_GROUPS = {
    "lockstep": ResourcePatternType.LITERAL,  # not a prefix: Connect's own group begins so
    "spark-kafka-": ResourcePatternType.PREFIXED,
}
"""The consumer groups that our readers name; nothing is committed under any."""


def grant_reading(settings: Settings, topic: str) -> None:
    """Let the reader read a topic, which need not be there yet; granted again, nothing changes.

    When this returns, the broker applies the rights: Kafka's controller says yes to a grant before
    the broker has read it. Raises ServiceError.
    """
    admin = AdminClient({**client(settings, KafkaUser.ADMIN), "log_level": 0}, logger=None)
    rights = _rights(topic)
    try:
        for granted in admin.create_acls(rights).values():
            granted.result(RIGHTS_SECONDS_MAX)
        if not wait_until(
            lambda: _rights_of_the_reader(admin).issuperset(rights),
            RIGHTS_SECONDS_MAX,
            RIGHTS_PAUSE_SECONDS,
        ):
            raise TimeoutError(f"its rights are not applied after {RIGHTS_SECONDS_MAX} s")
    except (KafkaException, TimeoutError) as error:
        raise ServiceError(
            f"Kafka at {settings.kafka_bootstrap} does not let {KafkaUser.READER} read "
            f"{topic}: {error}"
        ) from error


def _rights(topic: str) -> list[AclBinding]:
    records = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    groups = [(ResourceType.GROUP, *group) for group in READER_GROUPS.items()]
    allowed = (f"User:{KafkaUser.READER}", "*", AclOperation.READ, AclPermissionType.ALLOW)
    return [AclBinding(*of, *allowed) for of in (records, *groups)]


def _rights_of_the_reader(admin: AdminClient) -> set[AclBinding]:
    """Those that the broker applies now."""
    any_of_its = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        f"User:{KafkaUser.READER}",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return set(admin.describe_acls(any_of_its).result(RIGHTS_SECONDS_MAX))
