"""Capture the packaged networks again: python scripts/networks.py [NAME ...] [--check]. Needs PyTorch.

Without names, all that have graphs of their own. --check writes nothing and exits 1 if a graph is not what is packaged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from podsim.errors import ModelError
from podsim.graphs.module_capture import captured_for_any
from podsim.graphs.networks import Network, networks
from podsim.graphs.op_graph_json import read_value, to_text, write_value

ROOT = Path(__file__).parents[1]
MODULES = ROOT / "examples" / "modules"
PACKAGED = ROOT / "src" / "podsim" / "graphs" / "networks"


def value_of(one: Network) -> dict[str, object]:
    """JSON value of a network, captured now."""
    return {**captured_for_any(str(MODULES / one.module), one.inputs), "name": one.title}


def main(arguments: list[str]) -> int:
    """Capture, and write or compare."""
    check = "--check" in arguments
    names = [name for name in arguments if name != "--check"] or [
        name for name, one in networks().items() if not one.graph
    ]
    differ = 0
    for name in names:
        if name not in networks():
            raise SystemExit(f"unknown network {name!r}; known are {', '.join(networks())}")
        if shared := networks()[name].graph:
            raise SystemExit(f"{name} shares the graph of {shared}: capture that")
        value = value_of(networks()[name])
        path = PACKAGED / f"{name}.json.gz"
        try:
            same = to_text(read_value(path)) == to_text(value)
        except ModelError:
            same = False
        if not same and not check:
            write_value(value, path)
        differ += not same
        print(f"{name:32} {'as packaged' if same else 'differs' if check else 'written'}", flush=True)
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
