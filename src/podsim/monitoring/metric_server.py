"""The server of metrics: one page, /metrics, in the form that the scraper accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from podsim.errors import PodsimError
from podsim.monitoring.exposition import CONTENT_TYPES, Family, metric_text

Scrape = Callable[[], Iterable[Family]]


def make_server(scrape: Scrape, host: str, port: int) -> ThreadingHTTPServer:
    """A server that listens; `serve_forever` answers. One scrape is made at a time.

    Raises PodsimError for a port or an address that cannot be had.
    """
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "podsim", ""
        timeout = 30

        def do_GET(self) -> None:
            """Answer with the metrics; the end of the connection ends them."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the metrics are at /metrics")
                return
            is_open = "application/openmetrics-text" in self.headers.get("Accept", "")
            form = "openmetrics" if is_open else "prometheus"
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPES[form])
            self.end_headers()
            with lock:
                self.wfile.writelines(piece.encode() for piece in metric_text(scrape(), form))

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of each scrape."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of scrapers that hang up."""

    try:
        return Server((host, port), Handler)
    except OSError as problem:
        raise PodsimError(
            f"--host {host[:80]} --port {port}: cannot listen there: {problem.strerror or problem};"
            " --port 0 takes a free one"
        ) from None
