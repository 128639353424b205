"""Begins change capture from scratch: no slot, no topic, no offset of before; a new snapshot.

For when capture has a gap (a lost or recreated slot, a topic that is gone, another database). What
the topic held is deleted. Every step may be done again: after a crash at any point, reset again.
"""

from lockstep.capture import connector, preflight
from lockstep.capture.connectors import Connector
from lockstep.capture.side_snapshot import remove_side_snapshots
from lockstep.capture.topic_removal import delete_topic
from lockstep.settings import Settings


def reset_capture(settings: Settings, capture: Connector) -> None:
    """Remove the capture, and begin with a new snapshot. The caller sees to it that no stream runs.

    Raises ServiceError when a service refuses.
    """
    remove_capture(settings, capture)
    connector.ensure_running(settings, capture)


def remove_capture(settings: Settings, capture: Connector) -> None:
    """Delete the connector with its offsets, the slot, the change topic and all side snapshots.

    Raises ServiceError when a service refuses.
    """
    # Step 1: no stream writes; a connector that stands still survives a crash standing still.
    connector.stop(settings, capture)
    # Step 2: what it read and wrote.
    preflight.drop_slot(capture)
    delete_topic(settings, capture.change_topic)
    remove_side_snapshots(settings, capture)
    # Step 3: how far it came; without offsets it begins with a snapshot.
    connector.remove(settings, capture)
