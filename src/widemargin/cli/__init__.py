"""To run: the ``widemargin`` command."""

import io
import signal
import sys
from typing import Any, NoReturn


def main() -> None:
    """Run the command; say how to get it if its libraries are missing."""
    try:
        from widemargin.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(
            f"The widemargin command needs {missing.name}: "
            "pip install 'widemargin[cli,plot]'"
        )
    signal.signal(signal.SIGTERM, _terminate)
    _write_whole_lines()
    app()


def _terminate(*_: Any) -> NoReturn:
    from widemargin.cli.refusal import Terminated

    # Raised inside a callback of C, as compilers have them, it is lost: raise it again
    # until the command ends.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _terminate)
        signal.setitimer(signal.ITIMER_REAL, 1)
    raise Terminated


def _write_whole_lines() -> None:
    """Buffer what Python leaves unbuffered, where a short write loses the rest."""
    stream: Any = sys.stdout
    if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        encoding, errors = stream.encoding, stream.errors
        buffer = io.BufferedWriter(stream.detach())
        sys.stdout = io.TextIOWrapper(buffer, encoding, errors, line_buffering=True)
