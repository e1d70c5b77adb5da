"""To run: the ``widemargin`` command, and what all of its parts say.

That is one line where it cannot go on, plain text otherwise.
"""

import difflib
import functools
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

# The command finds columns by their names itself, and hands rows on.
UNNAMED = "X does not have valid feature names"
REFUSED, INTERRUPTED, TERMINATED = 2, 130, 143
_ENDED = "interrupted; no file is half written"


class Refusal(Exception):
    """The command cannot go on; the message is for the person who called it."""


class Terminated(BaseException):
    """The process was asked to end: it cleans up like an interrupted one."""


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
    try:
        _end_when_terminated()
        _write_whole_lines()
        app()
    except Terminated:
        leave(_ENDED, TERMINATED)


def _end_when_terminated() -> None:
    """Let SIGTERM raise `Terminated`, again where a callback of C has lost it."""
    signal.signal(signal.SIGTERM, _terminate)
    # Compilers have such callbacks. Raised a second time only if it was lost: it would
    # interrupt the cleaning up.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _terminate)
        sys.unraisablehook = _raise_again


def _terminate(*_: Any) -> NoReturn:
    raise Terminated


def _raise_again(lost: Any) -> None:
    if issubclass(lost.exc_type, Terminated):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    else:
        sys.__unraisablehook__(lost)


def _write_whole_lines() -> None:
    """Buffer what Python leaves unbuffered, where a short write loses the rest."""
    stream: Any = sys.stdout
    if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        encoding, errors = stream.encoding, stream.errors
        buffer = io.BufferedWriter(stream.detach())
        sys.stdout = io.TextIOWrapper(buffer, encoding, errors, line_buffering=True)


def near(word: str, options: Iterable[str]) -> str:
    """Return a hint at what may have been meant: near names, else all of them."""
    names = [str(option) for option in options if str(option)]
    matches = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    folded = [name for name in names if name.lower() == word.lower()]
    if folded or matches:
        meant = list(dict.fromkeys(folded + matches))
        return f"did you mean {' or '.join(map(repr, meant))}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there are: {shown}"


def check_out(
    option: str,
    path: Path,
    ending: str | None = None,
    inputs: Iterable[Path | str | None] = (),
) -> None:
    """Refuse, before any work, a path where no file can be or should be written."""
    if ending is not None and path.suffix != ending:
        raise Refusal(f"{option} must end in {ending}; got {path}")
    if path.is_dir():
        raise Refusal(f"{option}: {path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise Refusal(f"{option}: {path} is no plain file; name one")
    if path.is_file():
        for given in (Path(one) for one in inputs if one is not None):
            if given.exists() and path.samefile(given):
                raise Refusal(f"{option}: {path} is to be read; name another file")
    if not path.parent.is_dir():
        raise Refusal(f"{option}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise Refusal(f"{option}: the folder of {path} is not writable; name another")


def check_library(module: str, what: str, install: str) -> None:
    """Refuse, before any work, what needs a library that is not there."""
    from importlib.util import find_spec

    try:
        found = sys.modules[module] if module in sys.modules else find_spec(module)
    except ValueError:
        found = None
    if found is None:
        raise Refusal(f"{what} needs {module}: pip install {install}")


def console(stderr: bool = False) -> Any:
    """Return where to print: text from files and labels is never taken for markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False)


def text_table(
    title: str, header: Iterable[Any], rows: Iterable[Iterable[Any]], **options: Any
) -> Any:
    """Return a table for the terminal, all but its first column to the right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", **options)
    for i, head in enumerate(header):
        table.add_column(str(head), justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    return table


def tell(notes: Iterable[str]) -> None:
    """Print what a person should know though all went on."""
    for note in dict.fromkeys(notes):
        print(f"note: {' '.join(note.split())}", file=sys.stderr)


def one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command that refuses in one line on stderr with exit code 2."""

    @functools.wraps(command)
    def refusing(*args: Any, **options: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", UNNAMED)
                done = command(*args, **options)
            # A full disk shows when the last of the output is written, not before.
            sys.stdout.flush()
            return done
        except BrokenPipeError:
            _abandon_output()
            sys.exit(1)
        except (Refusal, OSError, MemoryError) as error:
            _abandon_output()
            leave(_text_of(error))
        except KeyboardInterrupt:
            leave(_ENDED, INTERRUPTED)

    return refusing


def _abandon_output() -> None:
    """Drop what cannot be written: Python would try once more as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        # What the library refuses says why and what would do; what fails says nothing.
        said = f": {error}" if "landmarks" in str(error) else ""
        return (
            f"not enough memory for this data{said}; use fewer rows, another model, or "
            "for svc --set n_landmarks=1000"
        )
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; the output is not complete"
    return str(error)


def leave(message: str, code: int = REFUSED) -> NoReturn:
    """End the process with one line on stderr."""
    print(f"widemargin: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
