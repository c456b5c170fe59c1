from __future__ import annotations

import importlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from podsim.cli import app
from podsim.lab import namespaces


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is taken for a rank of the job that runs it."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "PODSIM_EMULATED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def podsim() -> Callable[..., Result]:
    """Run the command line in this process; only SystemExit may leave it."""

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120", "NO_COLOR": "1"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture(scope="session")
def torch() -> None:
    """Skip where PyTorch is not installed."""
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install podsim[lab]")


@pytest.fixture(scope="session")
def spaces() -> None:
    """Skip where network namespaces cannot be made."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    if why := namespaces.unable():
        pytest.skip(why)


@pytest.fixture
def small(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A drive of 1 MiB, or of as much as a test asks for."""
    drive = tmp_path / "drive"
    drive.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={getattr(request, 'param', '1m')}", "tmpfs", drive],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"a small drive cannot be mounted here: {done.stderr.strip()[:100]}")
    try:
        yield drive
    finally:
        subprocess.run(["umount", "-l", drive], check=True)


class Counter:
    """Requests for samples that the store answered, and bytes that it sent for them."""

    def __init__(self) -> None:
        self.lock, self.gets, self.sent = threading.Lock(), 0, 0

    def wrap(self, application: Callable[..., Any]) -> Callable[..., Any]:
        """A WSGI application that counts what goes through."""

        def counted(environment: dict[str, Any], start: Callable[..., Any]) -> Any:
            sample = environment["PATH_INFO"].endswith(".bin") and environment["REQUEST_METHOD"] == "GET"
            body = application(environment, start)
            return self._sent(body) if sample else body

        return counted

    def _sent(self, body: Any) -> Iterator[bytes]:
        with self.lock:
            self.gets += 1
        for part in body:
            with self.lock:
                self.sent += len(part)
            yield part

    def reset(self) -> None:
        """Count from here."""
        with self.lock:
            self.gets = self.sent = 0


@pytest.fixture(scope="session")
def store() -> Iterator[Counter]:
    """An S3 server on loopback, which every process finds by AWS_ENDPOINT_URL."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install podsim[lab]")
    server_of = pytest.importorskip("moto.server", reason="moto is not installed: pip install podsim[dev]")
    counter, server = Counter(), server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded = importlib.import_module("moto.moto_server.threaded_moto_server")
    made = threaded.make_server
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threaded, "make_server", lambda host, port, app, *more, **named: made(
            host, port, counter.wrap(app), *more, **named))  # fmt: skip
        server.start()
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        importlib.import_module("s3fs").S3FileSystem().mkdir("bucket")
        try:
            yield counter
        finally:
            server.stop()
