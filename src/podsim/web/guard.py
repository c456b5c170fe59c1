"""The rules that every request keeps: who may ask, for which host, how much it may send; and the headers of replies."""

from __future__ import annotations

import hmac
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response

from podsim.bugs import bug_report

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_COOKIE = "podsim_token"
LARGEST_BODY = 2**20
"""B. The body of a request that is no file."""
LARGEST_FILE = 50 * 2**20
"""B. The body of a request that is a file."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class TooLargeError(Exception):
    """A request sent more than it may; the application replies."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """The application behind its rules."""

    application: Application
    host: str
    """The address that the server listens on."""
    token: str = ""
    """The token that visitors need; empty: none."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with bounded bodies and with the headers."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        sender = _with_headers(send)
        if refusal is not None:
            await refusal(scope, receive, sender)
            return
        limit = LARGEST_FILE if scope["path"] == "/api/files" else LARGEST_BODY
        try:
            await self.application(scope, _bounded(receive, limit), sender)
        except Exception as error:  # a bug, which the application answered with 500
            sys.stderr.write(f"podsim web: {scope['path'][:200]!r}\n{bug_report(error)}")

    def _refusal(self, scope: Message, headers: Headers) -> Response | None:
        """The reply to a request that breaks a rule."""
        host = host_name(headers.get("host", ""))
        if not self._is_own(host):
            return refuse(
                421, "this server answers only under its own name; open it as http://127.0.0.1 or localhost"
            )
        if not is_same_origin(scope["method"], headers):
            return refuse(403, "requests from other pages are refused")
        if headers.get("content-encoding", "identity") != "identity":
            return refuse(415, "send the request without compression")
        if "\0" in scope["path"]:
            return refuse(400, "an address holds no NUL")
        length = headers.get("content-length", "0")
        limit = LARGEST_FILE if scope["path"] == "/api/files" else LARGEST_BODY
        if not length.isascii() or not length.isdecimal() or int(length[:20]) > limit:
            return refuse(413, f"the request is larger than {limit // 2**20} MB")
        return self._token_refusal(scope, headers) if self.token else None

    def _is_own(self, host: str) -> bool:
        """Whether a name is the server's own; behind a token, whose cookie belongs to one name, any name is."""
        return (
            host in LOOPBACK
            or host == self.host
            or (bool(self.token) and self.host not in LOOPBACK and bool(host))
        )

    def _token_refusal(self, scope: Message, headers: Headers) -> Response | None:
        """The reply to a visitor without the token; the token of an address moves into a cookie."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(pairs).get("token", "")
        if given and scope["method"] == "GET":
            if not self._is_token(given):
                return refuse(401, "the token in the address is wrong")
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            path = "/" + scope["path"].lstrip("/\\")
            reply = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            reply.set_cookie(TOKEN_COOKIE, self.token, httponly=True, samesite="strict", path="/")
            return reply
        cookie = cookie_parser(headers.get("cookie", "")).get(TOKEN_COOKIE, "")
        if not self._is_token(cookie):
            return refuse(
                401, "this server asks for the token that it printed: open the address with ?token=…"
            )
        return None

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())


def host_name(host: str) -> str:
    """The name of a Host header, without its port; "" if it cannot be read."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return ""
        _ = parts.port
        return (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_same_origin(method: str, headers: Headers) -> bool:
    """Whether a request comes from a page of this server, or from no page; links from anywhere may open a page."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return is_link and method == "GET"
    origin = headers.get("origin")
    if origin is None:
        return True
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest == headers.get("host", "")


def refuse(status: int, *lines: str) -> Response:
    """A reply that says why not."""
    return JSONResponse({"status": 2, "problems": list(lines)}, status)


def _bounded(receive: Receive, limit: int) -> Receive:
    """A receiver that stops at a number of bytes."""
    got = 0

    async def bounded() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > limit:
            raise TooLargeError
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    """A sender that adds the headers of every reply."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sender
