"""Where and how often drivers die in the tests: at random, and settable.

FAULT_SEED repeats a run that printed it; FAULT_ROUNDS is how many crashes to add.
"""

import os
import random

SEED = int(os.environ.get("FAULT_SEED") or random.randrange(2**32))
MORE_ROUNDS = int(os.environ.get("FAULT_ROUNDS") or 0)


def seeded(name: str) -> random.Random:
    """The chance of one test; prints what repeats it, which is shown when the test fails."""
    print(f"FAULT_SEED={SEED}")  # noqa: T201
    return random.Random(f"{SEED} {name}")
