"""Memory: chunks from scikit-learn's ``working_memory``, and what can still be had.

A container's limit is not in /proc/meminfo: a process that goes by that alone is
killed where it could have said what is too large. Every group from our own up to the
root may limit us; what it holds of files not in use can be had as well.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from threading import local
from typing import Any

import numpy as np
from sklearn import get_config

from widemargin._compute.threads import worker_count

# Blocks of these sizes stay near a core's cache: rows of samples, rows of a matrix of
# pairs, and numbers. They do not depend on the number of threads, so that no result
# does. On a device a block is what fills it.
SAMPLE_ROWS, PAIR_ROWS = 1024, 256
BLOCK_NUMBERS, DEVICE_NUMBERS = 2**19, 2**26


def rows_in_budget(bytes_per_row: float, n_jobs: int | None = 1) -> int:
    """How many rows of `bytes_per_row` each worker may hold at once, at least one."""
    budget = get_config()["working_memory"] * 2**20
    return max(1, int(budget / (worker_count(n_jobs) * max(1.0, bytes_per_row))))


class Room(local):
    """Arrays that each thread of one call writes over, block after block.

    Fresh pages may cost as much as what is computed on them: an allocator that is told
    to hand memory back at once, as in a worker of Dask, gets them for every block.
    """

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array that holds anything, until the same name is taken again."""
        held, size = self.__dict__.get(name), math.prod(shape)
        if held is None or held.size < size or held.dtype != dtype:
            held = self.__dict__[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


_FOLDER = "sys/fs/cgroup"
# Where groups are, and what their files and the entry of reclaimable memory are called.
_UNIFIED = (_FOLDER, "memory.max", "memory.current", "inactive_file")
_FIRST_VERSION = (
    f"{_FOLDER}/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)


def available_bytes(root: Path = Path("/")) -> float:
    """Bytes that can still be allocated, as far as the system says; else infinity."""
    return max(0.0, min([_of_machine(root), *_of_groups(root)]))


def _of_machine(root: Path) -> float:
    available = _entry(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        return 1024.0 * available
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _of_groups(root: Path) -> Iterator[float]:
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, *names = _UNIFIED
        elif "memory" in controllers.split(","):
            folder, *names = _FIRST_VERSION
        else:
            continue
        group = PurePosixPath(path.strip("/"))
        # Inside a container the path may be the host's: only the root is there then.
        for part in (group, *group.parents):
            left = _left(root / folder / part, *names)
            if left is not None:
                yield left


def _left(group: Path, limit: str, usage: str, reclaimable: str) -> float | None:
    try:
        most, used = ((group / name).read_text().strip() for name in (limit, usage))
        if most == "max":
            return None
        spare = _entry(group / "memory.stat", reclaimable) or 0
        return float(int(most) - int(used) + spare)
    except (OSError, ValueError):
        return None


def _entry(file: Path, name: str) -> int | None:
    """Find the number that follows `name` at the beginning of a line."""
    for line in _lines(file):
        words = line.split()
        if words[:1] == [name]:
            return int(words[1])
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
