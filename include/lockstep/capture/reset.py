"""Begins change capture from scratch: no slot, no topic, no offset of before; a new snapshot.

For when capture has a gap (a lost or recreated slot, a topic that is gone, another database). What
the topic held is deleted. Every step may be done again: after a crash at any point, reset again.
"""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lockstep.accounts import KafkaUser
from lockstep.capture import connector, preflight
from lockstep.capture.connectors import Connector
from lockstep.errors import ServiceError
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.waiting import wait_until

GONE_SECONDS_MAX = 60.0
POLL_SECONDS = 0.2


def reset_capture(settings: Settings, capture: Connector) -> None:
    """Remove the capture, and begin with a new snapshot. The caller sees to it that no stream runs.

    Raises ServiceError when a service refuses.
    """
    remove_capture(settings, capture)
    connector.ensure_running(settings, capture)


def remove_capture(settings: Settings, capture: Connector) -> None:
    """Delete the connector with its offsets, the slot and the change topic.

    Raises ServiceError when a service refuses.
    """
    # Step 1: no stream writes; a connector that stands still survives a crash standing still.
    connector.stop(settings, capture)
    # Step 2: what it read and wrote.
    preflight.drop_slot(capture)
    _delete_topic(settings, capture.change_topic)
    # Step 3: how far it came; without offsets it begins with a snapshot.
    connector.remove(settings, capture)


def _delete_topic(settings: Settings, topic: str) -> None:
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
