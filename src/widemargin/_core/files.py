"""Files that are there whole or not at all.

A file is written under another name beside its place, flushed to the disk and then
moved. A writer that was killed leaves such a part behind; who writes the same file an
hour later removes it.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path
from secrets import token_hex

# Seconds after which a part that does not grow counts as left behind.
STALE = 3600


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
    part = place.with_name(f".{place.name}.{token_hex(4)}.part")
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
    """Remove the parts of `path` that nobody has written to for long."""
    for part in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > STALE:
                part.unlink()
