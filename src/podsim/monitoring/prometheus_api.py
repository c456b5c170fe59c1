"""Series from the HTTP API of a Prometheus server. A user and password in the URL stay out of messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from podsim.errors import PodsimError
from podsim.monitoring.exposition import Series

_PATIENCE = 60.0
_LARGEST = 256 << 20


def read_prometheus(
    url: str, names: Iterable[str], start: float, end: float, step: float
) -> dict[str, list[Series]]:
    """The series of metrics between two times (s since 1970), one value for each step in which there was one.

    Raises PodsimError for a server that cannot be asked.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_known = False
    if not is_known or not url.isprintable() or " " in url:
        raise PodsimError("--prometheus: expected a URL such as http://localhost:9090")
    series = {}
    for name in sorted(names):
        window = f"{1000 * step - 1:.0f}ms"  # older servers count both ends of a window
        query = {"query": f"last_over_time({name}[{window}])", "start": start, "end": end, "step": step}
        answer = _asked(parts, query)
        if answer:
            series[name] = answer
    return series


class _Staying(HTTPRedirectHandler):
    """Another server that an answer names is not asked: the user did not name it."""

    def redirect_request(self, *_: Any) -> None:
        """No request: the status stands."""


def _asked(parts: SplitResult, query: Mapping[str, Any]) -> list[Series]:
    """The series of the server's answer to one query over time."""
    server = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    url = f"{server}{quote(parts.path.rstrip('/'))}/api/v1/query_range"
    request = Request(url, data=urlencode(query).encode())
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(secret).decode()}")
    try:
        with build_opener(_Staying).open(request, timeout=_PATIENCE) as reply:
            data = reply.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise PodsimError(f"{server}: its answer is larger than 256 MiB; take a shorter --window")
        answer = json.loads(data)
        if answer["status"] == "success" and answer["data"]["resultType"] == "matrix":
            return [_series(each) for each in answer["data"]["result"]]
        reason = "it is no Prometheus"
    except HTTPError as problem:
        reason = f"it answered {problem.code} {problem.reason}"
    except (URLError, OSError) as problem:
        reason = str(getattr(problem, "reason", problem))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        reason = "its answer is not that of Prometheus"
    raise PodsimError(f"--prometheus {server}: {reason[:160]}")


def _series(told: Mapping[str, Any]) -> Series:
    """One series of an answer. Raises TypeError, KeyError or ValueError for another value."""
    if not isinstance(told["metric"], dict) or not all(isinstance(each, list) for each in told["values"]):
        raise TypeError
    return Series(
        labels={key: str(value) for key, value in told["metric"].items() if key != "__name__"},
        times=[float(time) for time, _ in told["values"]], values=[float(value) for _, value in told["values"]],
    )  # fmt: skip
