"""Write examples/notebooks/ again: `python scripts/notebooks.py` runs each notebook and keeps its outputs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of its cells; raises CellExecutionError for a cell that fails."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", coalesce_streams=True)
    client.create_kernel_manager().transport = "ipc"  # no port that others could reach
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(run(path), path)
