"""The wheel and the source distribution in clean environments, with and without a C compiler: the long run."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from scripts import release_files

PREDICT = ("predict", "llama-3.1-8b", "--on", "h100", "--gpus", "64", "--zero", "2")
SIMULATE = ("simulate", "gpt2", "--on", "dgx-a100:1")
PROGRAMS = {"with": os.environ["PATH"], "without": ""}
"""the folders of programs beside those of the environment"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution of the files that git knows."""
    folder = tmp_path_factory.mktemp("release")
    builder = _environment(folder / "builder")
    _run(builder, os.environ["PATH"], "pip", "install", "-q", "build")
    source = release_files.copy(folder / "source", 0o644)
    _run(builder, os.environ["PATH"], "pyproject-build", "--outdir", folder / "dist", source)
    found = {path.suffix: path for path in (folder / "dist").iterdir()}
    return {"wheel": found[".whl"], "sdist": found[".gz"]}


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="takes the compiler off PATH")
@pytest.mark.parametrize("compiler", PROGRAMS)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_runs_where_it_is_installed(
    files: dict[str, Path], kind: str, compiler: str, tmp_path: Path
) -> None:
    assert release_files.wheel_problems(files["wheel"]) == []
    programs = PROGRAMS[compiler]
    folder = _environment(tmp_path / "clean")
    _run(folder, programs, "pip", "install", "-q", files[kind])
    assert "Step " in _run(folder, programs, "podsim", *PREDICT).stdout
    is_without = (kind, compiler) == ("sdist", "without")
    done = _run(folder, programs, "podsim", *SIMULATE, status=2 if is_without else 0)
    if is_without:
        assert "install one" in done.stderr
        _run(folder, os.environ["PATH"], "podsim", *SIMULATE)  # a compiler that came later serves
    places = list((folder / "lib").rglob("podsim/_native-*.so"))
    assert bool(places) != is_without


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder


def _run(
    folder: Path, programs: str, name: str, *words: str | Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """A program of the environment, away from the repository and from its caches."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "CC", "VIRTUAL_ENV")}
    kept |= {
        "PATH": os.pathsep.join(filter(None, (str(folder / "bin"), programs))),
        "XDG_CACHE_HOME": str(folder),
    }
    done = subprocess.run(
        [folder / "bin" / name, *words], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done
