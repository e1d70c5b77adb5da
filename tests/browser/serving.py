"""A server of files that says nothing."""

import functools
import http.server
import threading
from contextlib import contextmanager


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    """Serve a folder; gives the address, without a slash at its end."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
