"""What type checkers and editors see of podsim is what it has: `podsim/__init__.pyi` names every public name.

The file is generated: `PODSIM_REFRESH=1 python -m pytest tests/architecture/test_stub.py` writes it.
"""

from __future__ import annotations

import os
from pathlib import Path

import podsim
from podsim.questions.registry import function_of, public_names

STUB = Path(podsim.__file__).with_suffix(".pyi")


def _stub() -> str:
    homes = {name: f"podsim.{module}" for name, module in podsim._NOUNS.items()}
    homes |= {name: function_of(question).__module__ for name, question in public_names().items()}
    homes["__version__"] = "podsim.version"
    lines = sorted(f"from {home} import {name} as {name}\n" for name, home in homes.items())
    return '"""Every public name of podsim with its type; generated from the registry."""\n\n' + "".join(
        lines
    )


def test_the_stub_names_what_is_public() -> None:
    if os.environ.get("PODSIM_REFRESH"):
        STUB.write_text(_stub(), "utf-8")
    assert STUB.read_text("utf-8") == _stub()
