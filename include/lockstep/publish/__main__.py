"""The publisher: keeps the table that consumers read up to date with its feed.

    python -m lockstep.publish

Normally started by `lockstep publish start` or by Airflow, detached. Ends with 0 when it is
stopped, with 2 when it failed; HOME/streams/<pipeline>__publisher/heartbeat.json says why.
"""

import sys

from lockstep.errors import exit_on_error
from lockstep.publish.publisher import Publisher
from lockstep.settings import Settings

if __name__ == "__main__":
    with exit_on_error():
        sys.exit(Publisher(Settings.load()).run())
