"""The streams' driver: one process that hosts the modes it is given.

    python -m lockstep.streams --mode outbox --mode temporal

Normally started by `lockstep stream start` or by Airflow, detached. Ends with 0 when its modes are
stopped, with 2 when one failed; HOME/streams/<pipeline>__<mode>/heartbeat.json says why.
"""

import argparse
import sys

from lockstep.errors import exit_on_error
from lockstep.settings import Settings
from lockstep.streams.driver import Driver


def main() -> int:
    parser = argparse.ArgumentParser(description="Follow the changes of a source.")
    parser.add_argument(
        "--mode",
        metavar="MODE|PIPELINE__MODE",
        action="append",
        required=True,
        help="of the pipeline that is worked for, or the address of another of its source",
    )
    modes = list(dict.fromkeys(parser.parse_args().mode))
    return Driver(Settings.load(), modes, takes_others=True).run()


if __name__ == "__main__":
    with exit_on_error():
        sys.exit(main())
