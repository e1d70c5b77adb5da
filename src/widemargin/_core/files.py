"""Files that are there whole or not at all.

A file is written under another name beside its place, flushed to the disk and then
moved. A writer that was killed leaves such a part behind; the next one that writes the
same file removes it.
"""

import os
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

# Seconds after which a part whose writer cannot be asked counts as left behind.
STALE = 24 * 3600


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call ``write(part)`` with a name beside `path`, then move the result there.

    Parameters
    ----------
    path : path
        Where the file shall be. What is there stays until the new one is whole.
    write : callable
        Writes all of the file to the path it is given.

    Raises
    ------
    OSError
        If anything cannot be written; it names `path`.
    """
    # Through links: what they point at is replaced, not they themselves.
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.{_host()}-{os.getpid()}.part")
    try:
        remove_parts(place)
        write(part)
        # What the system only promised to write may still fail: ask.
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def remove_parts(path: Path) -> None:
    """Remove the parts of `path` whose writers are gone."""
    name = re.compile(re.escape(f".{path.name}.") + r"(.*)-(\d+)\.part")
    for found in path.parent.iterdir():
        match = name.fullmatch(found.name)
        if match and _is_left(found, match[1], int(match[2])):
            found.unlink(missing_ok=True)


def _is_left(part: Path, host: str, pid: int) -> bool:
    if host == _host():
        return pid != os.getpid() and not _runs(pid)
    try:
        return time.time() - part.stat().st_mtime > STALE
    except FileNotFoundError:
        return False


def _runs(pid: int) -> bool:
    if os.name != "posix":
        return True  # asking would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", platform.node()) or "here"
