"""How much memory processes hold, as the operating system counts it."""

import psutil


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and of all below it (a driver's JVM, its Python workers).

    A process that ends meanwhile counts as nothing. Pages that several of them share count in each.
    Takes some milliseconds: it looks at every process of the machine.
    """
    return sum(map(_resident, process_tree(pid)))


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; none when it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
