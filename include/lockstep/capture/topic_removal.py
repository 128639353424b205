"""Deletes a topic of Kafka, and waits until it is gone."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lockstep.accounts import KafkaUser
from lockstep.errors import ServiceError
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.waiting import wait_until

GONE_SECONDS_MAX = 60.0
POLL_SECONDS = 0.2


def delete_topic(settings: Settings, topic: str) -> None:
    """One that is not there is deleted already. Raises ServiceError when Kafka refuses."""
    kafka = AdminClient({**client(settings, KafkaUser.ADMIN), "log_level": 0})

    def is_gone() -> bool:
        if topic not in kafka.list_topics(timeout=GONE_SECONDS_MAX).topics:
            return True
        kafka.delete_topics([topic])[topic].exception(GONE_SECONDS_MAX)
        return False

    try:
        if not wait_until(is_gone, GONE_SECONDS_MAX, POLL_SECONDS):
            raise ServiceError(f"Kafka did not delete {topic} in {GONE_SECONDS_MAX} s")
    except (KafkaException, TimeoutError) as error:
        raise ServiceError(f"Kafka does not delete {topic}: {error}") from error
