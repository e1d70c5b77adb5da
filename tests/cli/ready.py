"""A process that has imported everything, and runs the command in copies of itself.

Every copy ends as any process does; what is saved is five seconds of importing. It
reads requests from its input, a line each, and answers with two lines: the number of
the copy, and the exit code when it has ended.
"""

import contextlib
import gc
import io
import json
import os
import resource
import signal
import sys


def run(arguments, unbuffered, largest):
    """Run the command; no file that it writes may have `largest` bytes or more."""
    raw = io.FileIO(1, "w", closefd=False)
    stream = raw if unbuffered else io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(
        stream, "utf-8", line_buffering=raw.isatty(), write_through=unbuffered
    )
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), "utf-8", write_through=True
    )
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.argv = ["widemargin", *arguments]
    main()


if __name__ == "__main__":
    from widemargin._compute import glvq, lvq  # noqa: F401
    from widemargin.cli import main
    from widemargin.cli.app import app  # noqa: F401
    from widemargin.prototypes import GLVQClassifier  # noqa: F401

    with contextlib.suppress(ImportError):
        import skops.io  # noqa: F401

    gc.freeze()  # no copy need look at all this again, even as it ends
    for line in sys.stdin:
        asked = json.loads(line)
        paths = os.devnull, asked.pop("out"), asked.pop("err")
        # Open before anyone is told: a terminal that nobody has open is gone.
        files = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY) for path in paths]
        pid = os.fork()
        if pid == 0:
            for number, file in enumerate(files):
                os.dup2(file, number)
            run(**asked)
            break
        for file in files:
            os.close(file)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
