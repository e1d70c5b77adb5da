"""Bad input ends in one line that says what is wrong and how to mend it."""

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

EXIT_CODE = 2


class Refusal(Exception):
    """The command cannot go on; the message is for the person who called it."""


def near(word: str, options: Iterable[str]) -> str:
    """Return a hint at what may have been meant: near names, else all of them."""
    names = [str(option) for option in options]
    matches = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    folded = [name for name in names if name.lower() == word.lower()]
    if folded or matches:
        meant = list(dict.fromkeys(folded + matches))
        return f"did you mean {' or '.join(map(repr, meant))}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there are: {shown}"


def one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command that refuses in one line on stderr with exit code 2."""

    @functools.wraps(command)
    def refusing(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except BrokenPipeError:
            # Whoever read our output has seen enough; Python flushes once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (Refusal, OSError, MemoryError) as error:
            leave(_text_of(error))
        except KeyboardInterrupt:
            leave("interrupted; no output was written")

    return refusing


def _text_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory for this data; use fewer rows or a smaller model"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; no output was written"
    return str(error)


def leave(message: str) -> NoReturn:
    """End the process with one line on stderr."""
    print(f"widemargin: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(EXIT_CODE)
