"""Topics of the benchmarks' own."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from lockstep.accounts import KafkaUser
from lockstep.kafka_login import client
from lockstep.settings import Settings

from lockstep_tools.errors import MeasurementError

TOPIC_SECONDS_MAX = 30.0


def make_topic(settings: Settings, name: str) -> None:
    """One of one partition, as the change topic is. Raises MeasurementError."""
    admin = AdminClient({**client(settings, KafkaUser.ADMIN), "log_level": 0}, logger=None)
    try:
        for made in admin.create_topics([NewTopic(name, 1, 1)]).values():
            made.result(TOPIC_SECONDS_MAX)
    except (KafkaException, TimeoutError) as error:
        raise MeasurementError(f"the topic {name} cannot be made: {error}") from error
