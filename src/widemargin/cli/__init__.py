"""To run: the ``widemargin`` command."""

import signal
import sys


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
    # A terminated command cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
