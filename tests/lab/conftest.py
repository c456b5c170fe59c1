from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

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
