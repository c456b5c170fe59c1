"""The server's routes: pages, the JSON API, and the files of visitors."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from podsim import __version__
from podsim.errors import PodsimError
from podsim.questions.registry import screens
from podsim.web.guard import Guard, TooLargeError, refuse
from podsim.web.questions import UPLOAD, described_questions, read_request
from podsim.web.sessions import LARGEST, Session, Sessions
from podsim.web.worker_jobs import Job, Reply
from podsim.web.worker_pool import BusyError, LateError, LostError, WorkerPool

COOKIE = "podsim_session"
_STATUS = {0: 200, 1: 422, 2: 400, 70: 500}
"""HTTP status by the status that the command would end with"""
_KEPT = 32 * 2**20
"""characters of answers that are kept"""
_SHARED = {"gantt.js": "podsim.timeline", "palette.css": "podsim.report"}
"""the packages of the files that other pages have, too"""
_PAUSE = 10.0
"""s. The time between two signs of life of a stream."""


class Answers:
    """Answers that were given lately, by question and options; predictions do not change while a server runs."""

    def __init__(self) -> None:
        """Keep none yet."""
        self._kept: OrderedDict[str, Reply] = OrderedDict()
        self._size = 0

    def get(self, key: str) -> Reply | None:
        """The reply of a key, if it is kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: str, reply: Reply) -> None:
        """Keep a reply; the oldest leave."""
        if key in self._kept or len(reply.text) > _KEPT // 8:
            return
        self._kept[key] = reply
        self._size += len(reply.text) + len(key)
        while self._size > _KEPT:
            old, gone = self._kept.popitem(last=False)
            self._size -= len(gone.text) + len(old)


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the routes share."""

    quick: WorkerPool
    """The workers of questions that take a fraction of a second."""
    long: WorkerPool
    limit: float
    """s. The time that a question may take."""
    sessions: Sessions
    answers: Answers = field(default_factory=Answers)

    async def reply(self, job: Job, progress: Any = None) -> Reply:
        """The reply to a job, kept or new; a busy or late server says so."""
        is_quick = _is_quick(job.name)
        key = _key(job) if is_quick else ""
        kept = self.answers.get(key) if key else None
        if kept is not None:
            return kept
        pool = self.quick if is_quick else self.long
        try:
            reply = await pool.ask(job, self.limit, progress)
        except BusyError:
            return _failed("the server is busy: try again in a moment")
        except LateError:
            return _failed(
                f"this took longer than {self.limit:g} s and was stopped: ask for less, or start "
                "the server with a larger --limit"
            )
        except LostError:
            return _failed("the process that answered ended, perhaps for want of memory: ask for less")
        if key and reply.status in (0, 1):
            self.answers.keep(key, reply)
        return reply


def _is_quick(name: str) -> bool:
    """Whether a question has the quick workers."""
    screen = screens()[name][1].screen
    return screen is not None and screen.is_quick


def _failed(line: str) -> Reply:
    return Reply(status=503, text=json.dumps({"status": 503, "problems": [line]}))


def _key(job: Job) -> str:
    """The same for the same question; "" if it names a visitor's file."""
    if any(isinstance(value, str) and value.startswith(UPLOAD) for value in job.given.values()):
        return ""
    return f"{job.name} {json.dumps(job.given, sort_keys=True)}"


def open_site(workers: int, limit: float, folder: Path) -> Site:
    """A site with a number of workers for quick questions, and as many, of lower priority, for long ones.

    It keeps visitors' files in `folder`; the workers stand in an empty one below.
    """
    empty = folder / "empty"
    empty.mkdir()
    return Site(
        quick=WorkerPool(workers, empty), long=WorkerPool(workers, empty, niceness=5), limit=limit,
        sessions=Sessions(folder / "visits"),
    )  # fmt: skip


def make_application(site: Site, *, host: str = "127.0.0.1", token: str = "") -> Guard:
    """The application of a server behind its rules; its workers start with it."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        starting = asyncio.gather(site.quick.start(), site.long.start())
        yield
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        site.quick.close()
        site.long.close()
        site.sessions.close()

    static = StaticFiles(directory=str(files("podsim.web") / "static"))
    application = Starlette(
        routes=[
            Route("/", _page),
            Route("/api", _description),
            Route("/api/files", _receive_file, methods=["POST"]),
            Route("/api/files/{identity}", _drop_file, methods=["DELETE"]),
            Route("/api/{name}", _answer, methods=["POST"]),
            *(Route(f"/static/{name}", _shared_file) for name in _SHARED),
            Mount("/static", static),
        ],
        exception_handlers={
            404: _unknown,
            405: _unknown,
            400: _unknown,
            PodsimError: _mistake,
            ClientDisconnect: _gone,
            TooLargeError: _too_large,
        },
        lifespan=lifespan,
    )
    application.state.site = site
    application.router.redirect_slashes = False
    return Guard(application=application, host=host, token=token)


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)
    return refuse(
        status,
        f"{request.method} {request.url.path[:80]}: there is no such page; GET /api lists what can be asked",
    )


async def _mistake(request: Request, error: Exception) -> Response:
    return refuse(400, str(error)[:600])


async def _too_large(request: Request, error: Exception) -> Response:
    return refuse(413, "the request is larger than it may be")


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


async def _page(request: Request) -> Response:
    """The page, and a session for a visitor without one."""
    site: Site = request.app.state.site
    path = Path(str(files("podsim.web") / "static" / "index.html"))
    reply = FileResponse(path, media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-cache"})
    _session_of(request, site, reply)
    return reply


def _session_of(request: Request, site: Site, reply: Response | None = None) -> Session | None:
    """The visitor's session; a new one goes into the cookie of a reply."""
    session = site.sessions.get(request.cookies.get(COOKIE, ""))
    if session is None and reply is not None:
        name = site.sessions.make()
        reply.set_cookie(COOKIE, name, httponly=True, samesite="strict", path="/")
    return session


async def _shared_file(request: Request) -> Response:
    """A file of the pages that commands write, which this page has, too."""
    name = request.url.path.rsplit("/", 1)[-1]
    return FileResponse(str(files(_SHARED[name]) / "templates" / name))


async def _description(request: Request) -> Response:
    """What can be asked."""
    return JSONResponse({
        "podsim": __version__,
        "units": "SI: seconds, bytes, bytes per second, watts, FLOP per second; money in USD",
        "errors": {"400": "misuse", "422": "the answer is no", "503": "busy, stopped or too slow"},
        "streams": "Accept: text/event-stream gives events: progress, then answer or problems",
        "files": {"path": "/api/files?name=NAME&kind=KIND", "method": "POST", "kinds": dict(LARGEST)},
        "questions": described_questions(),
    })  # fmt: skip


async def _receive_file(request: Request) -> Response:
    """Keep a file for the visitor; its ID."""
    site: Site = request.app.state.site
    session = _session_of(request, site)
    kind, name = request.query_params.get("kind", "config"), request.query_params.get("name", "file")
    if session is None:
        return refuse(403, "this visit is over: load the page again")
    most = LARGEST.get(kind, 0)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            return refuse(
                413, f"{name[:60]}: larger than {most // 2**20} MB, which is the most for kind={kind[:20]}"
            )
    identity = site.sessions.add_file(session, name, kind, bytes(content))
    return JSONResponse(
        {"file": f"{UPLOAD}{identity}", "name": session.files[identity].name, "bytes": len(content)}
    )


async def _drop_file(request: Request) -> Response:
    """Delete a file of the visitor."""
    site: Site = request.app.state.site
    session = _session_of(request, site)
    if session is None or not site.sessions.drop_file(session, request.path_params["identity"]):
        return refuse(404, "there is no such file")
    return JSONResponse({"dropped": True})


async def _answer(request: Request) -> Response:
    """The answer to a question, at once or as a stream."""
    site: Site = request.app.state.site
    name = request.path_params["name"]
    if name not in screens():
        return refuse(404, f"{name[:40]}: no such question; GET /api lists them")
    given = read_request(await request.body())
    session = _session_of(request, site)
    job = Job(name=name, given=given, uploads=dict(session.uploads) if session else {})
    if "text/event-stream" in request.headers.get("accept", ""):
        return StreamingResponse(_events(site, job), media_type="text/event-stream")
    reply = await site.reply(job) if _is_quick(name) else await _reply_or_nobody(site, job, request)
    if reply is None:
        return Response(status_code=400)
    return Response(reply.text, _STATUS.get(reply.status, reply.status), media_type="application/json")


async def _reply_or_nobody(site: Site, job: Job, request: Request) -> Reply | None:
    """The reply to a long question; None if its visitor leaves, which ends the work."""
    asked = asyncio.ensure_future(site.reply(job))
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        asked.cancel()
        gone.cancel()


async def _until_gone(request: Request) -> None:
    """Wait until the visitor leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(site: Site, job: Job) -> AsyncIterator[str]:
    """The events of a long question: progress, then the answer or the problems. The question ends with its reader."""
    news: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    asked = asyncio.ensure_future(site.reply(job, lambda done, total: news.put_nowait((done, total))))
    waiting = asyncio.ensure_future(news.get())
    try:
        while not asked.done():
            await asyncio.wait({asked, waiting}, timeout=_PAUSE, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                done, total = waiting.result()
                yield _event("progress", json.dumps({"done": done, "total": total}))
                waiting = asyncio.ensure_future(news.get())
            elif not asked.done():
                yield ": still at work\n\n"
        reply = asked.result()
        yield _event("answer" if reply.status == 0 else "problems", reply.text)
    finally:
        asked.cancel()
        waiting.cancel()


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
