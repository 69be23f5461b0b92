"""How much memory this process may still take: the machine's, and its control groups'. No torch."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Controller(NamedTuple):
    """Where a version of control groups says what a group may use and uses."""

    folder: str
    limit: str
    usage: str
    reclaimable: str


_V1 = _Controller(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)
_V2 = _Controller("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that can be taken without swapping and without breaking a control group's limit.

    Args:
        root: Of the file system that `proc` and `sys` are looked up in.

    Returns:
        Bytes; `None` where the system does not say (no Linux).
    """
    amounts = [*_machine(root), *_groups(root)]
    return max(0, min(amounts)) if amounts else None


def _machine(root: Path) -> Iterator[int]:
    for name, value in _fields(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield value * 1024


def _groups(root: Path) -> Iterator[int]:
    """What the groups of this process leave, for each that has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        controller = _V1 if controllers else _V2
        top = root / controller.folder
        group = top / path.lstrip("/")
        # in a container the path may be the host's: then the limit is that of the mounted top
        for folder in (group, *group.parents):
            yield from _left(folder, controller)
            if folder == top:
                break


def _left(folder: Path, controller: _Controller) -> Iterator[int]:
    """The group's limit less what it uses and cannot give back; nothing without a limit."""
    try:
        limit = int((folder / controller.limit).read_text())
        used = int((folder / controller.usage).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return
    fields = dict(_fields(folder / "memory.stat"))
    yield limit - used + fields.get(controller.reclaimable, 0)


def _fields(path: Path) -> Iterator[tuple[str, int]]:
    """Lines that begin with a name and a number."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, *values = line.split()
        if values and values[0].isdigit():
            yield name, int(values[0])
