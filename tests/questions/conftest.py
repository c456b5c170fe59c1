from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from podsim.cli import app


@pytest.fixture(scope="session")
def podsim() -> Callable[..., Result]:
    """Run the command line in this process, on a terminal of 80 columns; only SystemExit may leave it."""

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
