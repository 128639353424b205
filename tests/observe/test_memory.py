"""Memory of a process is that of all below it, too, and moves with what they hold."""

import os
import subprocess
import sys
import time

from lockstep.observe.memory import resident_bytes

HELD = 60 * 2**20
SECONDS_MAX = 30
CHILD = f"held = b'x' * {HELD}; print('held', flush=True); input(); del held; print(); input()"


def test_what_a_child_holds_counts_and_is_gone_with_it() -> None:
    without = resident_bytes(os.getpid())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", CHILD], text=True, **pipes) as child:
        assert child.stdout.readline() == "held\n"
        held = resident_bytes(os.getpid())
        assert held - without > HELD
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        deadline = time.monotonic() + SECONDS_MAX
        while resident_bytes(child.pid) > HELD:
            assert time.monotonic() < deadline, "memory that was given back still counts"
            time.sleep(0.02)
        child.kill()
    assert resident_bytes(child.pid) == 0
