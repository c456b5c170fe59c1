"""`podsim web`: listen, say where, and answer until Ctrl-C."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from podsim.errors import PodsimError
from podsim.options.output_options import NoOutput
from podsim.options.question import option, question
from podsim.packaged import install_hint
from podsim.whole_files import scratch_folder

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class WebOptions:
    """Where the server listens, and who may ask."""

    port: int = option(8017, "Port to listen on.")
    host: str = option("127.0.0.1", "Address to listen on; another than this machine's own needs --token.")
    token: bool = option(
        False, "Ask every visitor for a random token, which is printed once.", flag="--token"
    )
    limit: float = option(60.0, "Seconds that a question may take before it is stopped.")
    workers: int | None = option(None, "Processes that answer; default the cores of this machine.")


@question(WebOptions, output=NoOutput)
def web(options: WebOptions) -> None:
    """Serve the pages until Ctrl-C. PodsimError for an address without --token, a busy port, or missing packages."""
    _check(options)
    try:
        uvicorn = import_module("uvicorn")
        application = import_module("podsim.web.web_application")  # which needs starlette
        connections = import_module("podsim.web.connections")
    except ImportError as error:
        raise PodsimError(f"podsim web needs {error.name}: {install_hint('web')}") from None
    listening = listen(options.host, options.port)
    with scratch_folder() as folder:
        site = application.open_site(options.workers or os.cpu_count() or 1, options.limit, folder)
        _serve(uvicorn, application, connections, site, options, listening)


def _serve(
    uvicorn: Any, application: Any, connections: Any, site: Any, options: WebOptions, listening: socket.socket
) -> None:
    """Say where, and answer until Ctrl-C."""
    token = secrets.token_urlsafe(24) if options.token else ""
    config = uvicorn.Config(
        application.make_application(site, host=options.host, token=token), log_level="warning", access_log=False,
        server_header=False, timeout_graceful_shutdown=1,
        timeout_keep_alive=30, ws="none", http=connections.BoundedProtocol, limit_concurrency=connections.MOST_OPEN,
        backlog=64,  # as many are accepted before the first of them is counted
    )  # fmt: skip
    sys.stdout.write(f"podsim: {address(options.host, options.port)}{f'/?token={token}' if token else ''}\n")
    sys.stdout.write("podsim: Ctrl-C ends it\n")
    sys.stdout.flush()
    server = uvicorn.Server(config)
    with suppress(
        ValueError
    ):  # only the main thread may; uvicorn sends itself the signal again when all is closed
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    server.run(sockets=[listening])
    raise KeyboardInterrupt


def _check(options: WebOptions) -> None:
    """Raise PodsimError for what no server can be."""
    if not 1 <= options.port <= 65535:
        raise PodsimError(f"--port {options.port}: a port is a number from 1 to 65535")
    if not 0 < options.limit < 1e6:
        raise PodsimError(f"--limit {options.limit:g}: seconds above 0")
    if options.workers is not None and not 1 <= options.workers <= 256:
        raise PodsimError(f"--workers {options.workers}: 1 to 256 processes")
    if options.host not in _LOOPBACK and not options.token:
        raise PodsimError(
            f"--host {options.host[:80]}: other machines could ask, so give --token, too; or keep the server on this "
            f"machine and reach it by: ssh -L {options.port}:localhost:{options.port} HOST"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. PodsimError for a busy port, with a free one, or for an address that is not here."""
    try:
        return _bound(host, port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise PodsimError(
                f"--host {host[:80]}: this machine cannot listen there: {error.strerror or error}"
            ) from None
        free = next((other for other in range(max(port, 1024) + 1, 65536) if _is_free(host, other)), None)
        reason = "is busy" if error.errno == errno.EADDRINUSE else "needs an administrator"
        advice = f"; {free} is free: podsim web --port {free}" if free else ""
        raise PodsimError(f"--port {port} {reason}{advice}") from None


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, location = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(location)
        listening.listen(256)
    except OSError:
        listening.close()
        raise
    return listening


def _is_free(host: str, port: int) -> bool:
    try:
        _bound(host, port).close()
    except OSError:
        return False
    return True


def address(host: str, port: int) -> str:
    """The address to open."""
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
