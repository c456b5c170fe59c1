"""Options of the server of pages."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.options.question import option


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
