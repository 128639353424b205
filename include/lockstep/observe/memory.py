"""How much memory processes hold, as the operating system counts it."""

import psutil


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and of all below it (a driver's JVM, its Python workers).

    A process that ends meanwhile counts as nothing. Pages that several of them share count in each.
    Takes some milliseconds: it looks at every process of the machine.
    """
    try:
        process = psutil.Process(pid)
        members = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(_resident, members))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
