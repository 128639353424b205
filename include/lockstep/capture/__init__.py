"""Change capture: Debezium's connector of a source in Kafka Connect, its slot and its topic.

The services themselves may be anywhere; nothing here starts one.
"""
